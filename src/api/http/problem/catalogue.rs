//! Problem types: one table, also used by `/openapi.json`.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProblemType {
    /// Last part of its `type`.
    pub slug: &'static str,
    pub statuses: &'static [u16],
    /// Fixed one-line title.
    pub title: &'static str,
    /// Cause and remedy.
    pub meaning: &'static str,
}

const fn row(
    slug: &'static str,
    statuses: &'static [u16],
    title: &'static str,
    meaning: &'static str,
) -> ProblemType {
    ProblemType {
        slug,
        statuses,
        title,
        meaning,
    }
}

#[rustfmt::skip]
pub const ALL: &[ProblemType] = &[
    row("invalid-request", &[400, 422], "The request is not valid", "A body, path, query parameter or header has a fault; `errors` names each with a JSON pointer. 400 on the scoring routes of sessions, 422 elsewhere."),
    row("session-not-completed", &[400], "The session is not completed", "Only sessions that have ended are scored; with `scoring.score_only_completed` only completed ones. Put the session again once it is."),
    row("nothing-to-judge", &[400], "The session has no conversation", "Put the session again with its messages."),
    row("unauthorized", &[401], "A token is needed", "Send `Authorization: Bearer TOKEN` with one of the configured tokens."),
    row("forbidden", &[403], "A scope is missing", "`detail` names the scope that is needed: admin includes enqueue, enqueue includes read."),
    row("cross-site", &[403], "Refused: the request comes from another site", "A browser sent it from a page of another origin. Call the API from its own origin or from outside a browser."),
    row("stale-form", &[403], "This form is out of date", "Pages only: a form whose token isn't the browser's, since its cookie is gone or another took its place. Load the page again."),
    row("not-found", &[404], "No such route", "See `/docs` for the routes there are."),
    row("session-not-found", &[404], "The session is not known", "Put the session first, or set history.base_url: then scoring fetches it from TARSy."),
    row("import-not-found", &[404], "The import is not known", "GET /api/v1/sessions/imports lists those there are."),
    row("not-scored", &[404], "The session has no score yet", "`job` is the active job, else the last one that failed; without one, ask for a score by POST."),
    row("score-not-found", &[404], "The score is not known", "Check the id; GET /api/v1/scoring/sessions/{session_id}/scores lists those of a session."),
    row("job-not-found", &[404], "The job is not known", "Check the id; jobs are kept for retention.jobs_days after they ended, if that is set."),
    row("batch-not-found", &[404], "The batch is not known", "Check the id; GET /api/v1/batches lists those there are; batches are kept for retention.jobs_days after they ended, if that is set."),
    row("batch-item-not-found", &[404], "The batch has no such item", "GET /api/v1/batches/{batch_id}/items lists its items, the first of which is 0."),
    row("criteria-not-found", &[404], "The criteria are not stored", "GET /api/v1/scoring/criteria lists what is stored."),
    row("judge-not-found", &[404], "The judge is not known", "`detail` lists the judges there are."),
    row("webhook-not-found", &[404], "The webhook or the delivery is not known", "GET /api/v1/webhooks and /api/v1/webhooks/deliveries list those there are; deliveries are kept for retention.webhook_deliveries_days."),
    row("method-not-allowed", &[405], "The route does not take this method", "The header Allow lists those that it takes."),
    row("body-timeout", &[408], "The body did not arrive in time", "Send it again, over a faster connection or in smaller parts."),
    row("scoring-in-progress", &[409], "Another job is active for the session", "Wait for `job` to end or cancel it, then ask again."),
    row("job-not-failed", &[409], "The job has not failed", "Only failed jobs are retried; ask for a new score with force_rescore instead."),
    row("job-ended", &[409], "The job has already ended", "An ended job can't be cancelled."),
    row("job-cancelled", &[409], "The job was cancelled while you waited", "Ask again if the score is still wanted."),
    row("import-ended", &[409], "The import has already ended", "An ended import can't be cancelled; what it stored stays."),
    row("batch-state", &[409], "The batch's state does not allow it", "`detail` says where it stands: a running batch is paused, a paused one resumed, either of them cancelled; failed items are queued again unless it was cancelled."),
    row("batch-budget", &[409], "The batch has spent its budget", "POST a larger budget_usd, or null, to the batch's `budget`: it goes on by itself then."),
    row("judge-capped", &[409], "The judge has spent what it may cost", "`detail` names the cap and when its day or month ends. Raise daily_cap_usd or monthly_cap_usd (of the entry, or of [judge] for all) and restart the workers to go on before."),
    row("idempotency-key-in-use", &[409], "A request with this Idempotency-Key is under way", "Send it again after `retry_after_s`; it is answered as the first one is."),
    row("idempotency-key-reused", &[422], "The Idempotency-Key stands for another request", "Send the same query and body as the first time, or a new key. A key is kept for 24 h."),
    row("payload-too-large", &[413], "The body is too large", "Send a shorter session, or raise http.max_body_bytes; of a batch http.max_batch_bytes. A compressed body counts as what it inflates to."),
    row("unsupported-media-type", &[415], "The body is not declared as what the route takes", "Send `Content-Type: application/json`, plain or with `Content-Encoding: gzip`; the header Accept-Post lists what a route takes."),
    row("host-not-allowed", &[421], "The Host header is not one of ours", "Add the name to http.allowed_hosts, or use the bound address."),
    row("too-many-attempts", &[429], "Too many wrong tokens", "Try again after `retry_after_s`; the log names the addresses that wrong tokens come from."),
    row("headers-too-large", &[431], "The headers are too large", "Send at most 16 KiB of headers."),
    row("internal", &[500], "A bug in gavel", "Report it with the request id; the log has the rest."),
    row("judge-failed", &[502], "The judge failed", "`class`, `detail` and `remedy` say how; `job` is the failed job, to be retried."),
    row("history-unusable", &[502], "TARSy has the session, and it can't be stored", "`detail` says why: a limit that it is over, or an answer that can't be read."),
    row("history-unavailable", &[503], "TARSy does not answer", "The session isn't here, and whether TARSy has it can't be told now. Try again after `retry_after_s`; `detail` says what happened."),
    row("history-not-configured", &[503], "No TARSy is configured", "Set history.base_url (GAVEL_HISTORY_BASE_URL), or name one in `from`."),
    row("scoring-disabled", &[503], "Scoring is switched off", "Set scoring.enabled (SCORING_ENABLED) to true and reload; scores can still be read."),
    row("judge-not-configured", &[503], "The judge is not configured", "`remedy` says what to set."),
    row("batch-given-up", &[503], "The batch could not be stored in time", "Nothing of it is left. Send it again after `retry_after_s`, in smaller parts if that happens again."),
    row("too-many-connections", &[503], "Too many connections are busy", "Try again after `retry_after_s`, or raise http.max_connections."),
    row("memory-busy", &[503], "Other requests have the memory", "Large bodies, batches and reports take their turn, and this one waited for ten seconds. Try again after `retry_after_s`, or raise memory_budget_bytes."),
    row("too-many-reports", &[503], "Too many reports are being made", "Try again after `retry_after_s`."),
    row("too-many-streams", &[503], "Too many streams of events are open", "Try again after `retry_after_s`, or raise http.max_streams."),
    row("judge-slow", &[504], "The judge takes longer than the answer is held back", "The job goes on: look at `Location`, or send the request with `Prefer: respond-async`. http.score_query_wait_s says how long it is."),
    row("database-unavailable", &[503], "The database is unavailable", "Try again after `retry_after_s`; nothing was accepted."),
    row("storage-full", &[503], "The database's disk is full", "Make room on the disk of the database (of `gavel up`: the disk of its data folder), then try again; no restart is needed. Nothing of this request was written. Jobs that were accepted before are kept and go on by themselves."),
];

pub(crate) fn problem_type(slug: &str) -> ProblemType {
    const UNLISTED: ProblemType = row("internal", &[500], "A bug in gavel", "");
    ALL.iter()
        .copied()
        .find(|kind| kind.slug == slug)
        .unwrap_or(UNLISTED)
}
