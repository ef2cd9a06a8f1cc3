#!/usr/bin/env python3
"""A small example agent: it knows only the answers of answers.json, some of them wrong.

As a server, for both agents of examples/qas/questions.json:

    python3 examples/agents/agent.py --port 8088
    GAVEL_AGENTS_SQL_URL=http://localhost:8088/ask gavel evaluate examples/qas/questions.json

As a command, which reads one question on stdin:

    gavel evaluate examples/qas/questions.json --agent-command 'python3 examples/agents/agent.py --stdin'
"""

import argparse
import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

ANSWERS = json.loads((Path(__file__).parent / "answers.json").read_text(encoding="utf-8"))


def answer(question):
    """The agent's answer: SQL, results, and success."""
    unknown = {"success": False, "error": "I don't know how to answer that."}
    return ANSWERS.get(question.strip(), unknown)


class Handler(BaseHTTPRequestHandler):
    """POST {"question": ..} to any path: /ask for SQL, / for docking."""

    def do_POST(self):
        length = int(self.headers.get("Content-Length", 0))
        try:
            question = json.loads(self.rfile.read(length))["question"]
        except (ValueError, KeyError, TypeError):
            self.reply(400, {"success": False, "error": 'POST {"question": ".."}'})
            return
        self.reply(200, answer(question))

    def do_GET(self):
        self.reply(200, {"questions": len(ANSWERS)})

    def reply(self, status, body):
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_):
        pass


def main():
    parser = argparse.ArgumentParser(description="A small agent with canned answers.")
    parser.add_argument("--port", type=int, default=8088, help="port on 127.0.0.1; 0: any [default: 8088]")
    parser.add_argument("--stdin", action="store_true", help="answer one question from stdin and end")
    args = parser.parse_args()
    if args.stdin:
        json.dump(answer(sys.stdin.read()), sys.stdout)
        return
    server = ThreadingHTTPServer(("127.0.0.1", args.port), Handler)
    print(f"agent on http://127.0.0.1:{server.server_port}", flush=True)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        pass


if __name__ == "__main__":
    main()
