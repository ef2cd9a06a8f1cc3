//! Problem types: one table, also used by `/openapi.json`.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProblemType {
    /// Last part of its `type`.
    pub slug: &'static str,
    pub status: u16,
    /// Fixed one-line title.
    pub title: &'static str,
    /// Cause and remedy.
    pub meaning: &'static str,
}

const fn row(
    slug: &'static str,
    status: u16,
    title: &'static str,
    meaning: &'static str,
) -> ProblemType {
    ProblemType {
        slug,
        status,
        title,
        meaning,
    }
}

#[rustfmt::skip]
pub const ALL: &[ProblemType] = &[
    row("invalid-request", 422, "The request is not valid", "A body, path, query parameter or header is invalid; `errors` lists each error with a JSON pointer."),
    row("session-not-completed", 400, "The session is not completed", "Only sessions that have ended are scored; with `scoring.score_only_completed` only completed ones. Upload the session again when it is."),
    row("nothing-to-judge", 400, "The session has no conversation", "Upload the session again with its messages."),
    row("unauthorized", 401, "A token is needed", "Send `Authorization: Bearer TOKEN` with one of the configured tokens."),
    row("forbidden", 403, "A scope is missing", "`detail` names the required scope: admin includes enqueue, enqueue includes read."),
    row("cross-site", 403, "Cross-site request rejected", "A browser sent it from a page of another origin. Call the API from its own origin or from outside a browser."),
    row("stale-form", 403, "This form is out of date", "Pages only: the form's token doesn't match the browser's cookie, which expired or was replaced. Reload the page."),
    row("not-found", 404, "No such route", "See `/docs` for the routes there are."),
    row("session-not-found", 404, "The session is unknown", "Put the session first, or set history.base_url: then scoring fetches it from TARSy."),
    row("import-not-found", 404, "The import is unknown", "GET /api/v1/sessions/imports lists them."),
    row("not-scored", 404, "The session has no score yet", "`job` is the active job, else the last failed one; without a job, request a score by POST."),
    row("score-not-found", 404, "The score is unknown", "Check the id; GET /api/v1/scoring/sessions/{session_id}/scores lists the scores of a session."),
    row("job-not-found", 404, "The job is unknown", "Check the id; ended jobs are deleted after retention.jobs_days, if that is set."),
    row("batch-not-found", 404, "The batch is unknown", "Check the id; GET /api/v1/batches lists them; ended batches are deleted after retention.jobs_days, if that is set."),
    row("batch-item-not-found", 404, "The batch has no such item", "GET /api/v1/batches/{batch_id}/items lists its items; the first is 0."),
    row("criteria-not-found", 404, "The criteria are not stored", "GET /api/v1/scoring/criteria lists the stored criteria."),
    row("judge-not-found", 404, "The judge is unknown", "`detail` lists the judges there are."),
    row("webhook-not-found", 404, "The webhook or the delivery is unknown", "GET /api/v1/webhooks and /api/v1/webhooks/deliveries list them; deliveries are deleted after retention.webhook_deliveries_days."),
    row("method-not-allowed", 405, "The route does not take this method", "The header Allow lists the allowed methods."),
    row("body-timeout", 408, "The body did not arrive in time", "Send it again, over a faster connection or in smaller parts."),
    row("scoring-in-progress", 409, "Another job is active for the session", "Wait for `job` to end or cancel it, then repeat the request."),
    row("job-not-failed", 409, "The job has not failed", "Only failed jobs are retried; request a new score with force_rescore instead."),
    row("job-ended", 409, "The job has already ended", "An ended job can't be cancelled."),
    row("job-cancelled", 409, "The job was cancelled while you waited", "Repeat the request if you still need the score."),
    row("import-ended", 409, "The import has already ended", "An ended import can't be cancelled; its stored sessions are preserved."),
    row("batch-state", 409, "The batch's state does not allow it", "`detail` reports its state: pause needs a running batch, resume a paused one, cancel either of them; failed items are requeued unless it was cancelled."),
    row("batch-budget", 409, "The batch has used up its budget", "POST a larger budget_usd, or null, to the batch's `budget`: it resumes automatically."),
    row("judge-capped", 409, "The judge has reached its spending cap", "`detail` names the cap and when its day or month ends. To continue earlier, raise daily_cap_usd or monthly_cap_usd (of the entry, or of [judge] for all) and restart the workers."),
    row("idempotency-key-in-use", 409, "A request with this Idempotency-Key is under way", "Send it again after `retry_after_s`; it gets the response of the first one."),
    row("idempotency-key-reused", 422, "The Idempotency-Key belongs to another request", "Send the same query and body as the first time, or a new key. A key is stored for 24 h."),
    row("payload-too-large", 413, "The body is too large", "Send a shorter session, or raise http.max_body_bytes; for a batch http.max_batch_bytes. A compressed body counts with its inflated size."),
    row("unsupported-media-type", 415, "The body has an unsupported content type", "Send `Content-Type: application/json`, plain or with `Content-Encoding: gzip`; the header Accept-Post lists the supported types."),
    row("host-not-allowed", 421, "The Host header is not allowed", "Add the name to http.allowed_hosts, or use the bound address."),
    row("too-many-attempts", 429, "Too many wrong tokens", "Try again after `retry_after_s`; the log names the addresses that send wrong tokens."),
    row("headers-too-large", 431, "The headers are too large", "Send at most 16 KiB of headers."),
    row("internal", 500, "A bug in gavel", "Report it with the request id; the log has the rest."),
    row("judge-failed", 502, "The judge failed", "`class`, `detail` and `remedy` describe the failure; `job` is the failed job, which can be retried."),
    row("history-unusable", 502, "TARSy has the session, and it can't be stored", "`detail` has the reason: a limit is exceeded, or a response is unreadable."),
    row("history-unavailable", 503, "TARSy does not answer", "The session isn't stored, and TARSy can't be queried now. Try again after `retry_after_s`; `detail` has the reason."),
    row("history-not-configured", 503, "No TARSy is configured", "Set history.base_url (GAVEL_HISTORY_BASE_URL), or name one in `from`."),
    row("scoring-disabled", 503, "Scoring is switched off", "Set scoring.enabled (SCORING_ENABLED) to true and reload; scores can still be read."),
    row("judge-not-configured", 503, "The judge is not configured", "`remedy` names the setting."),
    row("batch-given-up", 503, "The batch could not be stored in time", "The request was rolled back. Send it again after `retry_after_s`, in smaller parts if that happens again."),
    row("too-many-connections", 503, "Too many connections are busy", "Try again after `retry_after_s`, or raise http.max_connections."),
    row("memory-busy", 503, "Other requests have the memory", "Large bodies, batches and reports wait for memory, and this one waited for ten seconds. Try again after `retry_after_s`, or raise memory_budget_bytes."),
    row("too-many-reports", 503, "Too many reports are being created", "Try again after `retry_after_s`."),
    row("too-many-streams", 503, "Too many streams of events are open", "Try again after `retry_after_s`, or raise http.max_streams."),
    row("judge-slow", 504, "The judge didn't finish within the wait time of the response", "The job continues: poll `Location`, or send the request with `Prefer: respond-async`. http.score_query_wait_s sets the wait time."),
    row("database-unavailable", 503, "The database is unavailable", "Try again after `retry_after_s`; no request was accepted."),
    row("storage-full", 503, "The database's disk is full", "Free space on the disk of the database (of `gavel up`: the disk of its data folder), then try again; no restart is needed. This request wrote no data. Jobs that were accepted before are preserved and continue automatically."),
];

pub(crate) fn problem_type(slug: &str) -> ProblemType {
    const UNLISTED: ProblemType = row("internal", 500, "A bug in gavel", "");
    ALL.iter()
        .copied()
        .find(|kind| kind.slug == slug)
        .unwrap_or(UNLISTED)
}
