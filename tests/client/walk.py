"""Uses the main routes of the API with the client generated from the document.

walk.py CLIENT_FOLDER URL: the folder contains the package `gavel_client`; a service with a judge runs at URL.
The client fails with a traceback if a response doesn't match the document.
"""

import sys
from datetime import datetime, timezone
from pathlib import Path
from uuid import uuid4

sys.path.insert(0, sys.argv[1])

from gavel_client import Client  # noqa: E402
from gavel_client.api.batches import batch_report, get_batch, list_items, post_batch, post_rescore  # noqa: E402
from gavel_client.api.criteria import list_criteria  # noqa: E402
from gavel_client.api.jobs import get_job, list_jobs, post_job, score_query  # noqa: E402
from gavel_client.api.judges import list_judges  # noqa: E402
from gavel_client.api.operate import readyz  # noqa: E402
from gavel_client.api.scoring import get_score, list_scores, score_session  # noqa: E402
from gavel_client.api.sessions import get_session, list_sessions, put_session  # noqa: E402
from gavel_client.models import (  # noqa: E402
    BatchRequest,
    BatchState,
    Job,
    JobRef,
    JobRequest,
    JobState,
    Message,
    PutOutcome,
    RescoreRequest,
    Score,
    ScoreQueryRequest,
    SessionInput,
    SessionStatus,
)

client = Client(base_url=sys.argv[2], timeout=90, raise_on_unexpected_status=True)
WAIT = "wait=60"


def session():
    session_id = uuid4()
    body = SessionInput(
        status=SessionStatus.COMPLETED,
        alert_data={"pod": "web-1"},
        conversation=[Message(role="user", content="Pod web-1 restarts."), Message(role="assistant", content="I read its log.")],
        completed_at=datetime.now(timezone.utc),
    )
    put = put_session.sync(session_id, client=client, body=body)
    assert put.outcome is PutOutcome.NEW, put
    assert get_session.sync(session_id, client=client).status is SessionStatus.COMPLETED
    return session_id


def main_job():
    session_id = session()
    asked = score_session.sync(session_id, client=client)
    assert isinstance(asked, JobRef), asked
    job = get_job.sync(asked.job_id, client=client, prefer=WAIT)
    assert job.state is JobState.SUCCEEDED, job
    score = get_score.sync(session_id, client=client)
    assert isinstance(score, Score) and 0 <= score.total_score <= 100, score
    points = score.score_breakdown.additional_properties
    assert list(points) == ["logical_flow", "consistency", "tool_relevance", "synthesis_quality"], points
    assert all(isinstance(value, int) for value in points.values() if value == int(value)), points
    assert [item.score_id for item in list_scores.sync(session_id, client=client).items] == [score.score_id]
    assert str(session_id) in {str(item.session_id) for item in list_sessions.sync(client=client).items}
    assert str(job.job_id) in {str(item.job_id) for item in list_jobs.sync(client=client, state=JobState.SUCCEEDED).items}
    return session_id


def cases():
    query = ScoreQueryRequest(generated_kql="T | count", expected_kql="T | count", model="gpt-4o-mini")
    answer = score_query.sync(client=client, body=query)
    assert answer.success and answer.score.total_score == 1, answer
    payload = {"generated_sql": "select 1", "expected_sql": "SELECT 1"}
    request = JobRequest.from_dict({"kind": "sql_metrics", "payload": payload})
    job = post_job.sync(client=client, body=request, prefer=WAIT)
    assert isinstance(job, Job) and job.state is JobState.SUCCEEDED, job


def batch():
    items = [{"id": f"q{n}", "generated_sql": f"select {n}", "expected_sql": f"SELECT {n}"} for n in range(3)]
    request = BatchRequest.from_dict({"kind": "sql_metrics", "items": items, "name": "walk"})
    made = post_batch.sync(client=client, body=request)
    ended(made.batch_id)
    assert [item.name for item in list_items.sync(made.batch_id, client=client).items] == ["q0", "q1", "q2"]
    for name in ["report.json", "report.csv", "report.xlsx", "report.md", "report.junit.xml", "report.jsonl"]:
        report = batch_report.sync_detailed(made.batch_id, name, client=client)
        assert report.status_code == 200 and report.content, name
        assert (report.content[:2] == b"PK") == name.endswith("xlsx"), name


def rescore(session_id):
    """Rescores the session: a plan, then its batch, then two scores."""
    plan = RescoreRequest.from_dict({"filter": {"ids": [str(session_id)]}, "force_rescore": True, "dry_run": True})
    assert post_rescore.sync(client=client, body=plan).to_score == 1
    plan.dry_run = False
    ended(post_rescore.sync(client=client, body=plan).batch_id)
    scores = list_scores.sync(session_id, client=client).items
    assert [score.superseded_at is None for score in scores] == [True, False], scores


def ended(batch_id):
    """Waits for each open item of a batch, then reads the batch."""
    while (seen := get_batch.sync(batch_id, client=client)).state is not BatchState.COMPLETED:
        assert seen.state in (BatchState.EXPANDING, BatchState.RUNNING), seen
        for job in list_jobs.sync(client=client, batch_id=batch_id).items:
            get_job.sync(job.job_id, client=client, prefer=WAIT)
    assert seen.counts.succeeded == seen.counts.total, seen


readyz.sync(client=client)
scored = main_job()
cases()
batch()
rescore(scored)
assert list_judges.sync(client=client).items and list_criteria.sync(client=client).items
print(f"walked: session, job, query, batch, reports, rescore ({Path(sys.argv[1]).name})")
