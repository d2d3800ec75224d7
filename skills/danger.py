"""What in a skill's files an approver should look at twice: signs of harm, none of them a proof.

Found or not, nothing is blocked here: trust is for people to give.
"""

from __future__ import annotations

import base64
import binascii
import re
import unicodedata
from collections.abc import Iterable, Iterator
from typing import Final

from skills import ids
from skills.findings import Finding
from skills.visible import hidden, one_line, visible

EXCERPT_MAX: Final = 120
_PROGRAMS: Final = {
    b"\x7fELF": "ELF",
    b"MZ": "Windows",
    b"\xcf\xfa\xed\xfe": "macOS",
    b"\xca\xfe\xba\xbe": "macOS or Java",
}
_BLOB: Final = re.compile(r"(?<![A-Za-z0-9+/=])[A-Za-z0-9+/]{120,}={0,2}(?![A-Za-z0-9+/=])")


def _any_of(*patterns: str) -> re.Pattern[str]:
    return re.compile("|".join(f"(?:{one})" for one in patterns), re.IGNORECASE)


_GET: Final = r"(?:curl|wget|fetch|iwr|irm|invoke-webrequest|invoke-restmethod)\b"
_RUN: Final = r"(?:sudo\s+(?:-\w+\s+)*)?(?:ba|z|da|k|fi)?sh\b|(?:sudo\s+)?(?:python[\d.]*|node|perl|ruby|php|iex|invoke-expression)\b"
_OWN: Final = r"(?:~|\$\{?HOME\}?|/root|/home/[\w.-]+|%USERPROFILE%)"
_SECRETS: Final = (
    rf"{_OWN}/\.(?:ssh|aws|gnupg|kube|docker|netrc|npmrc|pypirc|config/gcloud|git-credentials)\b|\bid_(?:rsa|ed25519|ecdsa)\b"
    r"|/etc/(?:shadow|passwd)\b|/proc/(?:self|\d+)/environ|(?:^|[\s'\"/=@])\.env\b(?!\.(?:example|sample|template))"
    r"|\blogin\.keychain|\bCookies\.sqlite|\bwallet\.dat"
)

_PRIVATE: Final = (
    r"(?:data|secret|token|key|content|history|conversation|passw|env|prompt|cred|cookie|内容|对话|密钥|密码|口令)"
)

_LINES: Final = {
    "pipe_to_shell": _any_of(
        rf"{_GET}[^|\n]{{0,200}}\|\s*(?:{_RUN})",
        rf"(?:{_RUN}|source|\.|eval)\s+(?:-\w+\s+)*[\"']?(?:<\(|\$\(|`)\s*{_GET}",
        rf"(?:iex|invoke-expression)\b[^\n]{{0,80}}{_GET}",
        r"powershell[^\n]{0,80}\s-e(?:nc|ncodedcommand)?\s+[A-Za-z0-9+/=]{16,}",
        rf"base64\s+(?:-d|-D|--decode)[^|\n]{{0,200}}\|\s*(?:{_RUN})",
        rf"{_GET}[^\n]{{0,200}}(?:&&|;)\s*(?:chmod\s+\S+\s+\S+\s*(?:&&|;)\s*)?(?:{_RUN}|\./)",
    ),
    "password_archive": _any_of(
        r"\bunzip\s+[^\n]{0,80}-P\s*\S+",
        r"\b(?:7za?|unrar|rar)\s+\w\s+[^\n]{0,80}-p\S+",
        r"(?:\.zip|\.rar|\.7z|archive)\b[^\n]{0,120}\b(?:password|passphrase|pass|pwd)\b",
        r"\b(?:password|passphrase)\b[^\n]{0,80}(?:\.zip|\.rar|\.7z|\barchive\b|\bextract|\bunzip)",
        r"(?:解压|压缩包|压缩文件)[^\n]{0,30}(?:密码|口令)|(?:密码|口令)[^\n]{0,30}(?:解压|压缩包|\.zip|\.rar)",
    ),
    "sends_data": _any_of(
        rf"https?://[^\s\"'<>)]{{0,500}}[?&][\w.\[\]-]+=(?:\$\{{?[A-Za-z_]|\$\(|`|[{{<]+[^}}>\s]{{0,30}}{_PRIVATE})",
        rf"https?://[^\s\"'<>)]{{0,500}}/(?:\$\{{?\w*{_PRIVATE}|\$\(|[{{<]+[^}}>\s]{{0,30}}{_PRIVATE})",
        r"!\[[^\]]{0,300}\]\(https?://[^)\s?&]*+[?&][^)\s=]*+=[^)\s]*(?:[{<$]|DATA|CONTENT|SECRET)",
        r"\b(?:curl|wget)\b[^\n]{0,200}(?:-d|--data(?:-binary|-raw|-urlencode)?|-F|--form|-T|--upload-file|--post-file)[\s=]*[\"']?[^\s\"']*[@$`]",
        rf"(?:cat|tar|zip|base64|env|printenv|history)\b[^\n]{{0,160}}\|\s*(?:{_GET}|nc\b|ncat\b|socat\b|openssl\s+s_client)",
        r"\bhttps?://(?:[\w-]+\.)*(?:webhook\.site|requestbin\.\w+|requestcatcher\.com|pipedream\.net|ngrok(?:-free)?\.(?:io|app|dev)|"
        r"transfer\.sh|pastebin\.com|burpcollaborator\.net|oast\.\w+|interactsh\.com|dnslog\.cn|ceye\.io)",
        r"\bhttps?://(?:discord(?:app)?\.com/api/webhooks|api\.telegram\.org/bot\d)",
        r"/dev/tcp/\S+/\d+|\bnc\s+(?:-\w+\s+)*-e\s",
        r"(?:post|upload|send|append|include|encode)\b[^\n.]{0,80}\b(?:conversation|chat history|system prompt|api keys?|tokens?|credentials|environment variables|secrets|passwords)\b[^\n]{0,80}https?://",
        r"(?:上传|发送|提交|附加|回传)[^\n。]{0,40}(?:对话|聊天记录|密钥|口令|密码|令牌|环境变量|系统提示)[^\n。]{0,40}(?:https?://|服务器|地址|接口)",
        r"(?:把|将)[^\n。]{0,20}(?:对话|聊天记录|密钥|口令|密码|令牌|环境变量|系统提示)[^\n。]{0,40}(?:上传|发送|提交|附加|回传)[^\n。]{0,40}(?:https?://|服务器|地址|接口)",
    ),
    "reads_secrets": _any_of(_SECRETS),
    "prompt_injection": _any_of(
        r"\b(?:ignore|disregard|forget|override|bypass)\b[^\n.]{0,40}\b(?:previous|prior|above|earlier|preceding|all|any|other|system|safety|existing)\b[^\n.]{0,30}\b(?:instructions?|prompts?|rules?|guidelines?|messages?|restrictions?|policies|directives?)\b",
        r"\b(?:do not|don't|never)\s+(?:tell|inform|notify|mention|reveal|show|alert)\b[^\n.]{0,30}\b(?:the\s+)?(?:users?|humans?|persons?|people|operators?|admins?|anyone|anybody)\b",
        r"\bwithout\s+(?:telling|informing|asking|notifying|alerting|the\s+knowledge\s+of|confirmation\s+from|approval\s+from)\b[^\n.]{0,20}\b(?:users?|humans?|persons?|operators?|admins?|anyone|anybody)\b",
        r"\byou\s+are\s+now\s+(?:in\s+)?(?:a|an|the|DAN|developer|unrestricted|no longer|free|root|admin)\b",
        r"\b(?:reveal|print|repeat|output|leak|dump|show)\b[^\n.]{0,30}\b(?:system prompt|hidden instructions|initial instructions)\b",
        r"\b(?:developer|god|jailbreak|unrestricted|maintenance)\s+mode\s+(?:enabled|on|activated)",
        r"\b(?:new|updated|real|important)\s+(?:system\s+)?instructions?\s*:|<\/?(?:system|im_start|im_end)\b[^>\n]{0,20}>|<\|im_(?:start|end)\|>|\[/?INST\]",
        r"\bregardless\s+of\b[^\n.]{0,30}\b(?:instructions|rules|permissions|what the user)",
        r"(?:忽略|无视|忘记|忘掉|不要理会|不用管|抛开)[^\n。]{0,20}(?:之前|以上|上面|前面|先前|此前|所有|一切|全部|原有|系统|任何)[^\n。]{0,12}(?:指令|指示|提示|规则|要求|设定|限制|内容|约束)",
        r"(?:不要|不得|不能|别|勿|无需|不必|切勿)(?:让|向|对|跟|和)?[^\n。，]{0,8}(?:告诉|告知|通知|透露|提及|询问|说明|提醒|知道)[^\n。，]{0,8}(?:用户|对方|管理员|任何人|使用者|客户)",
        r"(?:不要|不得|别|勿)(?:让|向|对|跟)(?:用户|对方|管理员|任何人)[^\n。]{0,12}(?:知道|发现|察觉|透露|提起|说)",
        r"(?:瞒着|背着|绕过|跳过|避开)[^\n。]{0,10}(?:用户|管理员|审批|审核|安全|限制|权限|检查|确认)",
        r"你现在(?:是|扮演|进入)|从现在(?:开始|起)[，,]?\s*你|(?:输出|显示|泄露|说出|打印|复述)[^\n。]{0,10}(?:系统提示词?|隐藏指令|初始指令)",
        r"(?:最高|最终)(?:优先级|权限)(?:的)?(?:指令|命令)|(?:开发者|越狱|上帝)模式",
    ),
    "pretends_delivery": _any_of(
        r"^\s*Guidance for the task in hand: skill\b", r"^\s*<\/?(?:data|skill)\b[^>\n]*>", r"^\s*\[?skill loaded\b"
    ),
    "destructive": _any_of(
        r"\brm\s+(?:-[a-z]+\s+)*-[a-z]*[rf][a-z]*\s+(?:-[a-z-]+\s+)*[\"']?(?:/(?:\s|\*|$)|~/?(?:\s|\*|$)|\$HOME\b|/(?:etc|usr|var|home|boot)\b)",
        r"\bmkfs\.\w+|\bdd\b[^\n]{0,60}\bof=/dev/(?:sd|nvme|disk|hd)|>\s*/dev/sd[a-z]\b|:\(\)\s*\{\s*:\|:&\s*\};:",
        r"\bchmod\s+(?:-R\s+)?777\s+/(?:\s|$)|\b(?:drop\s+database|format\s+c:)",
    ),
    "stays_behind": _any_of(
        r"\bcrontab\s+-(?!l\b)|(?:>>|tee\s+-a)\s*"
        + _OWN
        + r"?/?\.?(?:~/)?\.?(?:bashrc|zshrc|profile|bash_profile|zprofile)\b",
        r"\bauthorized_keys\b|\blaunchctl\s+load\b|\bsystemctl\s+(?:--user\s+)?enable\b|\bLaunchAgents\b|CurrentVersion\\Run\b",
    ),
    "odd_address": _any_of(
        r"\bhttps?://[^\s/@:\"'<>]+:[^\s/@\"'<>]+@",
        r"\bhttps?://(?!(?:127|10|192\.168|169\.254|0)\.)(?:\d{1,3}\.){3}\d{1,3}\b(?!\.)",
        r"\bhttps?://(?:[\w-]+\.)*xn--[\w-]+",
    ),
}
_WORDS: Final = {
    "pipe_to_shell": "runs what it fetches from the network",
    "password_archive": "an archive with a password, which no scanner can look into",
    "sends_data": "an address that takes data out",
    "reads_secrets": "a place where secrets are kept",
    "prompt_injection": "speaks to the model against its instructions, or to keep people in the dark",
    "pretends_delivery": "imitates the lines by which skills and data are delivered",
    "destructive": "deletes or overwrites what it can't bring back",
    "stays_behind": "goes on after the task: start-up files, timers, keys",
    "odd_address": "an address by number, with a password, or in disguise",
}


def signs(text: str, file: str) -> Iterator[Finding]:
    """Signs in one text, in order of their lines; of each kind the first three."""
    found = [*_in_lines(text, file), *_hidden(text, file), *_blobs(text, file)]
    counts: dict[str, int] = {}
    for sign in sorted(found, key=lambda one: one.line):
        counts[sign.kind] = counts.get(sign.kind, 0) + 1
        if counts[sign.kind] <= 3:
            yield sign


def signs_in_bytes(raw: bytes, file: str) -> Iterator[Finding]:
    """The same for a file of a skill, which may be no text."""
    if kind := next(
        (name for magic, name in _PROGRAMS.items() if raw.startswith(magic) and b"\0" in raw[:4_096]), None
    ):
        yield Finding("program_file", f"a compiled program ({kind})", file, 1, danger=True)
    if b"\0" not in raw:
        yield from signs(raw.decode("utf-8", "replace"), file)


def _in_lines(text: str, file: str) -> Iterator[Finding]:
    for number, line in enumerate(_joined(_undisguised(text).split("\n")), 1):
        # A line longer than that is no line; what is searched is bounded, so that no pattern can run away.
        for start in range(0, min(len(line), 200_000), 4_000):
            stretch = line[start : start + 4_400]
            for kind, pattern in _LINES.items():
                if match := pattern.search(stretch):
                    text = f"{_WORDS[kind]}: {_excerpt(stretch, match.start(), match.end())}"
                    yield Finding(kind, text, file, number, danger=True)


def _undisguised(text: str) -> str:
    """The text as a model may well read it: without what is invisible, tags as the letters they are, look-alikes as
    what they pass for, wide letters as plain ones. Lines keep their numbers.
    """
    if text.isascii():
        return text
    characters = list(text)
    for one in hidden(text):
        if one.kind == "look_alike":
            characters[one.offset] = ids.looks_like(one.character.casefold())
        else:
            tag = ord(one.character) - 0xE0000
            characters[one.offset] = chr(tag) if 0x20 <= tag < 0x7F else ""
    return "\n".join(unicodedata.normalize("NFKC", line) for line in "".join(characters).split("\n"))


def _joined(lines: Iterable[str]) -> Iterator[str]:
    """Lines that end in a backslash with those they go on in, in the place of the first."""
    waiting: list[str] = []
    skipped = 0
    for line in lines:
        waiting.append(line.removesuffix("\\"))
        if line.endswith("\\") and len(waiting) < 20:
            skipped += 1
            continue
        yield " ".join(waiting)
        yield from [""] * skipped
        waiting, skipped = [], 0
    if waiting:
        yield " ".join(waiting)


def _hidden(text: str, file: str) -> Iterator[Finding]:
    found = [one for one in hidden(text) if one.offset or one.character != "\ufeff"]  # a file may begin with one
    for kind in dict.fromkeys(one.kind for one in found):
        of_kind = [one for one in found if one.kind == kind]
        first = of_kind[0]
        line = text.count("\n", 0, first.offset) + 1
        names = ", ".join(dict.fromkeys(one.name for one in of_kind[:100]))
        says = ""
        if kind == "tag":
            spelt = "".join(chr(ord(one.character) - 0xE0000) for one in of_kind if ord(one.character) >= 0xE0020)
            says = f", which spell {spelt[:EXCERPT_MAX]!r}"
        begin = text.rfind("\n", 0, first.offset) + 1
        line_text = text[begin : (text.find("\n", first.offset) + 1 or len(text) + 1) - 1]
        excerpt = _excerpt(line_text, first.offset - begin, first.offset - begin + 1)
        yield Finding(
            f"hidden_{kind}" if kind != "look_alike" else "look_alike_letters",
            f"{len(of_kind)} {kind.replace('_', '-')} characters ({names[:60]}){says}: {excerpt}",
            file,
            line,
            danger=True,
        )


def _blobs(text: str, file: str) -> Iterator[Finding]:
    for match in _BLOB.finditer(text):
        blob = match[0]
        if re.fullmatch(r"[0-9a-fA-F]+|(.)\1*", blob) or re.search(
            r"data:image/[\w.+-]+;base64,$", text[: match.start()][-40:]
        ):
            continue
        try:
            raw = base64.b64decode(blob + "=" * (-len(blob) % 4))
        except binascii.Error:
            continue
        kinds = sum(bool(re.search(one, blob)) for one in ("[a-z]", "[A-Z]", "[0-9]"))
        if kinds < 3:
            continue
        inside = raw.decode("utf-8", "replace")
        holds = f", which holds {visible(inside[:60])!r}" if inside.isprintable() or "\ufffd" not in inside else ""
        line = text.count("\n", 0, match.start()) + 1
        yield Finding(
            "encoded_blob", f"{len(blob):,} characters of base64{holds}: {blob[:40]}...", file, line, danger=True
        )


def _excerpt(line: str, begin: int, end: int) -> str:
    """What was found with a little around it."""
    room = max((EXCERPT_MAX - (end - begin)) // 2, 10)
    start = max(begin - room, 0)
    cut = line[start : min(end + room, start + EXCERPT_MAX)].strip()
    shown = one_line(cut)
    return ("..." if start else "") + shown + ("..." if end + room < len(line) else "")
