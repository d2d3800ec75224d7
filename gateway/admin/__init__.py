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

**A page** is a `Page` in `gateway/web/admin/pages.py` (the address, the operations that it shows, its template) and a
template in `gateway/web/pages/admin/`. A form posts the fields of an operation to `/admin/do/<operation>` (macro `act` in
`_parts.html`); what came of it is told on the page that it came from. All of it works without JavaScript; htmx makes
links and forms smooth, and needs nothing of the server.

May import: `gateway` except `gateway.web`, `skills`, `config`.
"""
