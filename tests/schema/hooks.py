"""Accepted findings of schemathesis in Gavel's API, with reasons. All others fail tests/schema.sh."""

import ast
import functools
import re
import threading

import requests
import schemathesis

# ST202: a request that the schema allows is rejected. This is correct if the schema allows any value there, and for rules that
# JSON Schema can't express: about two fields, the clock, stored data, or a text with a special format. These are the messages of rules
# that it can express: types, names, closed sets, bounds, lengths.
HAS_WORDS = (
    r"(missing|unknown|duplicate) (field|variant)|invalid (type|value|length)|(number|one of|object|array|list|text)[^;]* is expected"
    r"|must be (at least|at most|more than|less than|between|from|\d)|is (empty|longer|shorter)|(more|fewer) than \d"
)
# Exceptions, with reasons.
BUT = [
    (r"invalid type: floating point `-?\d+\.0`", "8.0 is a whole number for JSON Schema"),
    (r"control character|printable|NUL", "no name and no message holds one: the document says so once, in its preface"),
]
# Others: code, operation (empty: any), text of the failure, and reason.
OTHERS = [
    ("ST202", "POST /api/score-query", "", "the body is a payload, with the rules of its kind"),
    ("ST202", "GET /api/v1/batches/{batch_id}/{report}", "method-not-allowed", "405: `cancel` and its like stand where a report is named"),
    ("ST103", "GET /api/v1/batches/{batch_id}/{report}", "method-not-allowed", "the same"),
    ("ST108", "GET /api/v1/events", "type", "OpenAPI 3.1 can't describe a stream: its schema is that of `data`, not of the event around it"),
    ("ST101", "POST /api/v1/sessions/import", "history-not-configured", "503: no TARSy is configured here"),
    ("ST101", "", "judge-not-configured", "503: of the judges the simulated one alone has a key"),
    ("ST201", "POST /api/score-query", "/model", "names may be numbers, as in the origin"),
    ("ST201", "POST /api/score-query", "model: Incorrect type", "the same"),
    ("ST201", "POST /api/score-query", "/id", "the same"),
    ("ST201", "", "`Idempotency-Key` in header - violates `maxLength`", "what stands around a key, spaces and quotes, is no part of it"),
    ("ST201", "POST /api/v1/metrics/calibration", "cases", "a case may be an array of its fields in order"),
]

# Python 3.11 fails if two threads parse concurrently ("AST constructor recursion depth mismatch"), as the generator's do.
parse, parsing = ast.parse, threading.Lock()


def parse_alone(*args, **kwargs):
    with parsing:
        return parse(*args, **kwargs)


ast.parse = parse_alone


@schemathesis.hook
def after_call(context, case, response):
    """Resumes a judge or queue after a pause, because later requests would wait for scores in vain."""
    if case.operation.path.endswith("/pause") and response.status_code == 200:
        resume = response.request.url.split("?")[0].removesuffix("pause") + "resume"
        requests.post(resume, headers={"Authorization": response.request.headers["Authorization"]}, timeout=60)


def anything(document, schema, path):
    """Whether the schema allows any value at this path of a value."""
    while "$ref" in schema:
        schema = functools.reduce(lambda part, key: part[key], schema["$ref"].split("/")[1:], document)
    choices = [choice for key in ("anyOf", "oneOf", "allOf") for choice in schema.get(key, [])]
    if choices:
        return any(anything(document, choice, path) for choice in choices)
    types = schema.get("type", "object")
    if "object" in types and not schema.get("properties"):
        return schema.get("additionalProperties", True) is True
    inside = schema.get("items") if "array" in types else schema.get("properties", {}).get(path[0] if path else None)
    return bool(path) and inside is not None and anything(document, inside, path[1:])


def is_right(fault, case):
    """Whether the schema can't express the rule of a rejection."""
    text = "{pointer}: {message}".format(**fault)
    document, path = case.operation.schema.raw_schema, fault["pointer"].split("/")[1:]
    body = case.operation.definition.raw.get("requestBody", {}).get("content", {}).get(case.media_type, {})
    free = "schema" in body and anything(document, body["schema"], path)
    return free or not re.search(HAS_WORDS, text) or any(re.search(rule, text) for rule, _ in BUT)


@schemathesis.hook
def filter_failure(context, failure, case, response):
    for code, operation, part, _ in OTHERS:
        if failure.code == code and operation in ("", case.operation.label) and part in failure.message + response.text:
            return False
    if failure.code != "ST202":
        return True
    problem = response.json()
    faults = problem.get("errors") or [{"pointer": "", "message": problem["detail"]}]
    return not all(is_right(fault, case) for fault in faults)
