//! The entire program in this process: API on a separate port, workers on request, and a scripted judge.

use std::sync::Arc;

use gavel::app::{App, AppError, Migrations, Stop};
use gavel::history::imports::Whose;
use tokio::task::JoinHandle;

use super::client::Api;
use super::home::Home;
use super::judge_server::{JudgeServer, Reply};

pub(crate) struct World {
    pub(crate) api: Api,
    pub(crate) judge: JudgeServer,
    pub(crate) home: Home,
    app: Option<Arc<App>>,
    /// The API, then the import runner, then the workers that the test doesn't stop.
    running: Vec<Running>,
}

/// Part that runs until it is stopped.
pub(crate) struct Running {
    pub(crate) stop: Stop,
    task: JoinHandle<Result<(), AppError>>,
}

impl Running {
    pub(crate) async fn ended(self) {
        self.task.await.unwrap().unwrap();
    }

    /// Stops it softly and waits for its end.
    pub(crate) async fn drain(self) {
        self.stop.soft.cancel();
        self.ended().await;
    }
}

impl World {
    /// Opens the program with one worker and a judge with this response.
    pub(crate) async fn start(home: Home, say: Reply) -> Self {
        let mut world = Self::idle(home, say).await;
        world.work();
        world
    }

    pub(crate) async fn idle(home: Home, say: Reply) -> Self {
        Self::idle_with(home, say, "").await
    }

    /// Opens the program without a worker; `more` are further lines of the judge's entry.
    pub(crate) async fn idle_with(mut home: Home, say: Reply, more: &str) -> Self {
        let judge = JudgeServer::start(say).await;
        home.judge_at(&judge.url("w"), more);
        Self::open(home, judge).await
    }

    /// Opens the program without a worker, with the judge of the home; its own judge gets no calls.
    pub(crate) async fn elsewhere(home: Home) -> Self {
        let judge = JudgeServer::start(Reply::Status(500)).await;
        Self::open(home, judge).await
    }

    pub(crate) fn app(&self) -> &Arc<App> {
        self.app.as_ref().expect("it is open")
    }

    /// Starts a worker that [`Self::end`] stops.
    pub(crate) fn work(&mut self) {
        let worker = self.worker();
        self.running.push(worker);
    }

    /// Starts a worker that the test stops.
    pub(crate) fn worker(&self) -> Running {
        let (app, stop) = (self.app().clone(), Stop::default());
        let task = tokio::spawn({
            let stop = stop.clone();
            async move { app.work(stop).await }
        });
        Running { stop, task }
    }

    /// Restarts the program on the same data, without a worker.
    pub(crate) async fn restart(mut self) -> Self {
        self.close().await;
        Self::open(self.home, self.judge).await
    }

    pub(crate) async fn end(mut self) {
        self.judge.release();
        self.close().await;
        self.home.remove().await;
    }

    async fn open(home: Home, judge: JudgeServer) -> Self {
        let opened = App::open(home.settings(), home.mode(), Migrations::Apply).await;
        let app = Arc::new(opened.unwrap_or_else(|error| panic!("{error}")));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let api = Api::new(&listener.local_addr().unwrap().to_string());
        let stop = Stop::default();
        let task = tokio::spawn({
            let (app, stop) = (app.clone(), stop.clone());
            async move { app.serve(listener, stop).await }
        });
        let import_stop = Stop::default();
        let importing = tokio::spawn({
            let (app, stop) = (app.clone(), import_stop.clone());
            async move { app.import(Whose::Anybodys, stop).await }
        });
        let running = vec![
            Running { stop, task },
            Running {
                stop: import_stop,
                task: importing,
            },
        ];
        Self {
            api,
            judge,
            home,
            app: Some(app),
            running,
        }
    }

    async fn close(&mut self) {
        while let Some(part) = self.running.pop() {
            part.drain().await;
        }
        let app = self.app.take().and_then(Arc::into_inner);
        app.expect("nobody holds the program any more")
            .close()
            .await;
    }
}
