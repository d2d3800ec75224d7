from gateway.cli.words import typed
from gateway.text.unmarked import plain


def test_marks_go_and_what_stands_in_code_stays() -> None:
    assert plain("**Note** `a/**/*.csv` waits") == "Note a/**/*.csv waits"
    assert plain("see:\n````\n```py\n`x` **y**\n```\n````\nend `z`") == "see:\n```py\n`x` **y**\n```\nend z"


def test_commands_of_the_chat_are_told_as_they_are_typed() -> None:
    told = "Say `/skill trust a 3fa91c`, not `/skillful`."
    assert typed(told, "web/web") == "Say `deskmate skills trust a 3fa91c --channel web/web`, not /skillful."
    assert typed(told, None) == "Say `deskmate skills trust a 3fa91c`, not /skillful."
    assert plain(told) == "Say /skill trust a 3fa91c, not /skillful."
