//! Service with data for every page: sessions in all states, batches with hits, misses and judge errors, two criteria
//! versions, ratings and overlong names.

use uuid::Uuid;

use super::furniture::judge;
use super::*;
use crate::support::documented_pages;
use crate::support::home::Home;
use crate::support::judge_server::Reply;

pub(super) struct Room {
    /// File name of its screenshots.
    pub(super) name: String,
    pub(super) way: Way,
}

pub(super) enum Way {
    Open(String),
    /// By uploading a suite with invalid rows.
    Upload,
    /// By requesting the plan of a backlog.
    Plan,
    /// By signing in with this token.
    SignIn(&'static str),
}

fn room(name: &str, path: impl Into<String>) -> Room {
    Room {
        name: name.to_owned(),
        way: Way::Open(path.into()),
    }
}

fn sign_in(name: &str, token: &'static str) -> Room {
    Room {
        name: name.to_owned(),
        way: Way::SignIn(token),
    }
}

pub(super) struct Showroom {
    pub(super) site: Site<World>,
    guarded: World,
}

impl Showroom {
    /// Opens an empty one without a worker; `None` without a browser.
    pub(super) async fn open() -> Option<Self> {
        let world = async {
            let world = World::idle(Home::embedded(), Reply::Refusal).await;
            world.judge.rule(judge);
            world
        };
        let site = Site::over(world).await?;
        let mut home = Home::embedded();
        home.set(
            "GAVEL_AUTH_TOKENS",
            "somebody-who-reads:read:reading-in-the-showroom",
        );
        let guarded = World::idle(home, Reply::Refusal).await;
        Some(Self { site, guarded })
    }

    pub(super) fn empty_rooms(&self) -> Vec<Room> {
        vec![
            room("empty-overview", "/"),
            room("empty-sessions", "/sessions"),
            room("empty-batches", "/batches"),
            room("empty-insights", "/insights"),
            room("empty-queue", "/queue"),
            room("empty-rescore", "/rescore"),
            sign_in("sign-in", ""),
            sign_in("sign-in-refused", "wrong"),
            sign_in("empty-overview-reader", "reading-in-the-showroom"),
        ]
    }

    pub(super) async fn visit(&self, room: &Room) {
        let site = &self.site;
        match &room.way {
            Way::Open(path) => site.open(path).await,
            Way::Upload => {
                site.open("/batches/upload").await;
                let file = site.dir.path().join("suite.csv");
                std::fs::write(&file, WRONG_SUITE).unwrap();
                let field = site.find("#upload-file").await;
                field.send_keys(file.display().to_string()).await.unwrap();
                site.submit("form[action='/batches/upload'] button").await;
            }
            Way::Plan => {
                site.open("/rescore?tag=shop").await;
                site.submit("form[action='/rescore'] button").await;
            }
            Way::SignIn(token) => {
                let url = format!("{}/sign-in", self.guarded.api.base());
                site.driver.goto(url).await.unwrap();
                if !token.is_empty() {
                    site.find("#token").await.send_keys(*token).await.unwrap();
                    site.submit("form[action='/sign-in'] button").await;
                }
            }
        }
    }

    /// Creates all data, and returns the pages that show it.
    pub(super) async fn furnish(&mut self) -> Vec<Room> {
        self.site.gavel.work();
        let mut sessions = self.sessions().await;
        let suites = self.suites().await;
        // Last, because a rate-limited judge scores no more sessions.
        self.unlucky(&mut sessions).await;
        let mut rooms = vec![
            room("overview", "/"),
            room("sessions", "/sessions"),
            room("session-upload", "/sessions/upload"),
            room("sessions-filtered", "/sessions?tag=nobody"),
            room("annotate", "/annotate?order=low_score"),
            room(
                "criteria-current",
                format!("/criteria/{}", sessions.current),
            ),
            room("criteria-other", format!("/criteria/{}", sessions.other)),
            room(
                "criteria-edit",
                format!("/criteria/{}/edit", sessions.other),
            ),
            room("rescore", "/rescore?tag=shop&min_score=10"),
            Room {
                name: "rescore-plan".to_owned(),
                way: Way::Plan,
            },
            room("help", "/help"),
            room("problem-unknown", "/nowhere"),
            room("problem-filter", "/sessions?min_score=many"),
        ];
        rooms.extend(sessions.rooms());
        rooms.extend(suites.rooms());
        rooms.extend(documented(&rooms));
        rooms
    }

    pub(super) async fn close(self) {
        self.site.close().await.end().await;
        self.guarded.end().await;
    }
}

/// Pages of `docs/pages.md` without parameters that aren't in `rooms`, so that new pages are covered automatically.
fn documented(rooms: &[Room]) -> Vec<Room> {
    let has = |path: &str| {
        let mut ways = rooms.iter().map(|room| &room.way);
        ways.any(|way| matches!(way, Way::Open(open) if open == path))
    };
    let missing = documented_pages().filter(|path| !has(path));
    missing
        .map(|path| room(&path[1..].replace('/', "-"), path))
        .collect()
}

const WRONG_SUITE: &str = "id,prompt,generated_kql,expected_kql,threshold\n\
    a,How many?,T | count,T | count,\nb,Which?,T | take 5,,\nc,Who?,T,T,much\n";

#[derive(Default)]
pub(super) struct Sessions {
    pub(super) scored: Uuid,
    pub(super) unscored: Uuid,
    pub(super) at_work: Uuid,
    pub(super) running: Uuid,
    pub(super) waiting: Uuid,
    pub(super) failed: Uuid,
    pub(super) long: Uuid,
    /// A replaced score, and its replacement.
    pub(super) replaced: [Uuid; 2],
    pub(super) backlog: Uuid,
    pub(super) current: String,
    pub(super) other: String,
}

impl Sessions {
    fn rooms(&self) -> Vec<Room> {
        let of = |id: Uuid, side: &str| format!("/sessions/{id}{side}");
        let [before, after] = self.replaced;
        vec![
            room("session-scored", of(self.scored, "")),
            room("session-technical", of(self.scored, "/technical")),
            room("session-score", of(self.scored, "/score")),
            room("session-history", of(self.scored, "/history")),
            room("session-unscored", of(self.unscored, "")),
            room("session-unscored-score", of(self.unscored, "/score")),
            room("session-at-work", of(self.at_work, "")),
            room("session-running", of(self.running, "")),
            room("session-waiting", of(self.waiting, "")),
            room("session-failed", of(self.failed, "")),
            room("session-long-words", of(self.long, "")),
            room("score", format!("/scores/{after}")),
            room("score-replaced", format!("/scores/{before}")),
            room("score-calls", format!("/scores/{after}/calls")),
            room("compare-scores", format!("/compare?a={before}&b={after}")),
            room(
                "compare-criteria",
                format!("/compare?a={}&b={}", self.current, self.other),
            ),
            room("batch-backlog", format!("/batches/{}", self.backlog)),
        ]
    }
}

/// Two complete runs of a suite, and an unfinished one.
pub(super) struct Suites {
    pub(super) before: Uuid,
    pub(super) after: Uuid,
    pub(super) running: Uuid,
    pub(super) metrics: Uuid,
}

impl Suites {
    fn rooms(&self) -> Vec<Room> {
        let (before, after) = (self.before, self.after);
        let item = |n: usize| format!("/batches/{before}/items/{n}");
        vec![
            room("batches", "/batches"),
            room("upload", "/batches/upload"),
            Room {
                name: "upload-refused".to_owned(),
                way: Way::Upload,
            },
            room("batch", format!("/batches/{before}")),
            room("batch-failures", format!("/batches/{after}?show=failures")),
            room("batch-running", format!("/batches/{}", self.running)),
            room("batch-metrics", format!("/batches/{}", self.metrics)),
            room("batch-cancel", format!("/batches/{}/cancel", self.running)),
            room(
                "batch-retry-errors",
                format!("/batches/{before}/retry-errors"),
            ),
            room("item-passed", item(1)),
            room("item-missed", item(3)),
            room("item-not-executed", item(5)),
            room("item-judge-error", item(DECLINED)),
            room("compare", "/compare"),
            room("compare-batches", format!("/compare?a={before}&b={after}")),
        ]
    }
}

const DECLINED: usize = 4;
