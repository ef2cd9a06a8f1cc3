"""What schemathesis may find in Gavel's API, each with its reason. All else fails tests/schema.sh."""

import ast
import re
import threading

import schemathesis

# A request that the schema allows is refused (ST202), by a rule that JSON Schema has no words for: what each fault says, and why.
RULES = [
    (r"is not before to|is after to|must not be later than to|is before started_at|days before to; at most|days back; at most", "two times together; a period also has a length that one request sums up"),
    (r"must not be more than max_score|holds (more than one|none) of", "two fields together"),
    (r"is the same version as a", "two parameters together"),
    (r"^/name: is another webhook's|^/secret: must be whsec_", "no two webhooks have one name, and a secret is Base64"),
    (r"^/types: .* is not known|^/at: lies in the future", "words in a list of text; a time that has been"),
    (r"is for purpose \w+: leave it out", "a field of one purpose"),
    (r"chooses rows, and this report sums up all items", "a parameter of some reports"),
    (r"stands in the body of a batch in JSON", "parameters of files"),
    (r"^/session_id: differs from the id", "the id stands in the path, too"),
    (r"invalid type: floating point `[0-9-]+\.0`, expected", "8.0 is a whole number for JSON Schema"),
    (r"is not a position in this list", "a cursor is one that the list gave"),
    (r"has passed already", "a time to come"),
    (r"sent with another body or query", "a key stands for one request, and the generator uses the same one again"),
    (r"is of kind \w+: name one of kind|whose cases have no confidence", "the version or the batch is of another kind"),
    (r"must be 64 hex digits|a hash of 64 hex digits", "criteria are named by a hash, its beginning or a word, and bodies may hold null"),
    (r"has no price, so that nothing can be held|has no batch endpoint", "the simulated judge costs nothing and takes no batches"),
    (r"^/budget_usd: must be more than 0|^/kind: is missing: say in the query string|has no threshold", "POST /batches: a budget is more than nothing, files need a kind, and some kinds have no threshold"),
    (r"^/(payload|items|rows)|there are no items", "what they hold depends on the kind, and is JSON as far as the schema says"),
    (r"^/alert_data: ", "an alert is an object or a string, or the first message"),
    (r"has an empty conversation", "there is nothing to judge"),
    (r"is blank; remove it|holds control characters", "names without any letter, or with none that is shown"),
    (r"^/targets/\w+: is", "three shares"),
    (r"^/from: is not an address|is no such moment|must be UUIDs separated by commas", "text with a form of its own"),
]
# Others: the code, the operation (empty: any), what the failure says, and why.
OTHERS = [
    ("ST202", "POST /api/score-query", "", "the body is a payload, with the rules of its kind"),
    ("ST202", "POST /api/v1/scoring/criteria", "", "criteria are JSON as far as the schema says: docs/criteria.md has their rules"),
    ("ST202", "POST /api/v1/sessions", "", "so are sessions in the formats of others"),
    ("ST202", "GET /api/v1/batches/{batch_id}/{report}", "method-not-allowed", "405: `cancel` and its like stand where a report is named"),
    ("ST103", "GET /api/v1/batches/{batch_id}/{report}", "method-not-allowed", "the same"),
    ("ST108", "GET /api/v1/events", "type", "OpenAPI 3.1 can't describe a stream: its schema is that of `data`, not of the event around it"),
    ("ST101", "POST /api/v1/sessions/import", "history-not-configured", "503: no TARSy is configured here"),
    ("ST101", "", "judge-not-configured", "503: of the judges the simulated one alone has a key"),
    ("ST201", "POST /api/score-query", "/model", "names may be numbers, as in the origin"),
    ("ST201", "POST /api/score-query", "model: Incorrect type", "the same"),
    ("ST201", "POST /api/score-query", "/id", "the same"),
    ("ST201", "POST /api/v1/metrics/calibration", "cases", "a case may be an array of its fields in order"),
]

# Python 3.11 fails where two threads parse at once ("AST constructor recursion depth mismatch"), as the generator's do.
parse, parsing = ast.parse, threading.Lock()


def parse_alone(*args, **kwargs):
    with parsing:
        return parse(*args, **kwargs)


ast.parse = parse_alone


@schemathesis.hook
def filter_failure(context, failure, case, response):
    for code, operation, part, _ in OTHERS:
        if failure.code == code and operation in ("", case.operation.label) and part in failure.message + response.text:
            return False
    if failure.code != "ST202":
        return True
    problem = response.json()
    faults = ["{pointer}: {message}".format(**fault) for fault in problem.get("errors") or []] or [problem["detail"]]
    return not all(any(re.search(rule, fault) for rule, _ in RULES) for fault in faults)
