"""Admin: the one place where it is written down what people who look after deskmate can see and do.

One file a subject, its functions are the operations. The JSON API, its OpenAPI document and the pages are made of them
and have no way of their own.

**An operation** is an `async` function of its subject's module under `@operation(...)`; with that alone it is in the API
and in its document:

    @operation(LOOK)                                    # who may: see `gateway.admin.operations`
    async def show(visit: Visit, given: OneSkill) -> ShownSkill:
        "One skill: ..."                                # the document says this

- `channels.show` is then `GET /admin/api/v1/channels/show?channel=...`; with `is_safe=False`, `POST` with a JSON body.
- Input and result are `Input` and `Result` classes; a field's docstring is its description. A place is a field
  `channel` (`InChannel`; `Anywhere`, where empty is the whole organisation): who may is asked there.
- What changes something calls an act that the chat has as well (`visit.acts`, `visit.notes`), and names its command by
  `Act(...)`, so that rules, refusals and audit lines are the same.
- It is not done without a row in `tests/gateway/admin/test_rights.py`.

**A page** is a `Page` in `gateway/web/admin/pages.py` (the address, the phrase of its title, its template, the operations that
it shows; `under` where another page leads to it, `is_for_all` where it is for those alone who look after all channels) and a template
in `gateway/web/pages/admin/` that begins with the two lines of the others:

- Its words are phrases, `{{ say("admin.title.audit") }}`, in both languages; what operations tell is in the visit's.
- Macros of `_parts.html` are what pages are made of: `act` (a button that does an operation), `toggle` (a switch), `form` (fields of
  one's own), `table`, `time`, `channel_link`, `place_chooser`, `bar`. A form posts the fields of an operation to `/admin/do/<operation>`; what
  came of it is told on the page that it came from.
- All of it works without JavaScript. htmx makes links and forms smooth (`hx-boost` in `_layout.html`), and needs nothing of the
  server. Nothing inline: no script, no style, no `on...`, or the browser refuses it. Colours are tokens of `admin.css`.
- Tests: `tests/gateway/web/admin`; `test_pages.py` and `test_busy_pages.py` drive Chromium, `test_colours.py` reckons contrast.

May import: `gateway` except `gateway.web`, `skills`, `config`.
"""
