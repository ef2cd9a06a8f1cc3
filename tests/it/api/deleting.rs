//! DELETE of a session: removes all its data, unless a job is active.

use super::*;
use crate::support::stores;

fn path(session: Uuid) -> String {
    format!("/api/v1/sessions/{session}")
}

impl Server {
    async fn delete(&self, session: Uuid) -> Response {
        let request = self.request(Method::DELETE, &path(session));
        request.send().await.unwrap()
    }
}

#[tokio::test]
async fn session_is_deleted_once_it_has_no_active_job() {
    for db in stores().await {
        let server = Server::over(db).await;
        let (session, score) = server.scored(80).await;
        let active = job_id(&json_of(server.force(session).await, 202).await);

        let refused = problem_of(server.delete(session).await, 409, "scoring-in-progress").await;
        assert_eq!(refused["job"]["job_id"], json!(active.0), "{refused:#}");
        server.json_of(&path(session)).await;
        let cancel = server.post(&format!("/api/v1/jobs/{active}/cancel"));
        json_of(cancel.send().await.unwrap(), 200).await;

        let gone = server.delete(session).await;
        assert_eq!(gone.status(), 204);
        assert_eq!(gone.text().await.unwrap(), "");
        problem_of(server.delete(session).await, 404, "session-not-found").await;
        for (path, problem) in [
            (path(session), "session-not-found"),
            (format!("/api/v1/jobs/{active}"), "job-not-found"),
            (format!("/api/v1/scores/{score}/ratings"), "score-not-found"),
        ] {
            problem_of(server.get(&path).send().await.unwrap(), 404, problem).await;
        }
        let jobs = format!("/api/v1/jobs?session_id={session}");
        assert_eq!(server.json_of(&jobs).await["items"], json!([]));
    }
}

#[tokio::test]
async fn deleted_session_is_removed_from_stored_responses() {
    for db in stores().await {
        let server = Server::over(db).await;
        let (session, score) = server.scored(80).await;
        let ratings = format!("/api/v1/scores/{score}/ratings");
        let job = json!({ "kind": "session", "payload": { "session_id": session } });
        let requests = [
            (score_path(session), json!({})),
            ("/api/v1/jobs".to_owned(), job),
            (
                ratings,
                json!({ "total": 3, "by": "ann", "comment": "too kind" }),
            ),
        ];
        let ask = async |path: &str, body: &Value| {
            let request = server.post(path).header("idempotency-key", "k").json(body);
            request.send().await.unwrap()
        };
        for (path, body) in &requests {
            let status = ask(path, body).await.status();
            assert!(status.is_success(), "{path}: {status}");
            let again = ask(path, body).await;
            assert!(
                again.headers().contains_key("idempotency-replayed"),
                "{path}"
            );
        }
        assert_eq!(server.delete(session).await.status(), 204);
        for (path, body) in &requests {
            let status = ask(path, body).await.status();
            assert_eq!(status.as_u16() / 100, 4, "{path}: {status}");
        }
    }
}

#[tokio::test]
async fn concurrent_puts_scores_and_delete_leave_one_state() {
    for db in stores().await {
        let server = Server::over(db).await;
        for _ in 0..5 {
            let (session, job) = server.queued_session().await;
            let put = server.request(Method::PUT, &path(session));
            let (deleted, put, _) = tokio::join!(
                server.delete(session),
                put.json(&session_body()).send(),
                server.succeed(job, 70)
            );
            assert!(
                matches!(deleted.status().as_u16(), 204 | 409),
                "{deleted:?}"
            );
            let is_new = put.unwrap().status() == 201;
            let is_there = server.get(&path(session)).send().await.unwrap().status() == 200;
            let was_deleted = deleted.status() == 204;
            assert_eq!(
                is_there,
                is_new || !was_deleted,
                "a put that came later stays"
            );
            let jobs = format!("/api/v1/jobs?session_id={session}");
            let jobs = server.json_of(&jobs).await["items"]
                .as_array()
                .unwrap()
                .len();
            assert_eq!(jobs, usize::from(!was_deleted));
        }
    }
}
