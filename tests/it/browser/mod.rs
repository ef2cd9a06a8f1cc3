//! Pages in a real Chromium, driven by chromedriver. Without one these tests are skipped with a message;
//! `GAVEL_TEST_BROWSER=required` makes that a failure.
//!
//! `axe.min.js` is axe-core 4.14.1 (MPL-2.0, `axe.LICENSE`) from its npm package, used for accessibility checks.

mod accessible;
mod first_run;
mod furniture;
mod hostile;
mod lists;
mod live;
mod pictures;
mod plain;
mod proxy;
mod showroom;
mod steady;
mod suites;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};
use thirtyfour::prelude::*;
use tokio::process::Command;

use crate::support::client::{Api, PATIENCE};
use crate::support::home::Home;
use crate::support::judge_server::{Call, Reply};
use crate::support::process::{Process, free_address, gavel, program};
use crate::support::wait::eventually;
use crate::support::world::World;

const AXE: &str = include_str!("axe.min.js");
const DOWNLOADS: &str = "downloads";

struct Site<Of = Up> {
    driver: WebDriver,
    api: Api,
    gavel: Of,
    dir: tempfile::TempDir,
    _chromedriver: Process,
}

struct Up {
    judge: Process,
    _up: Process,
}

#[derive(Debug, Clone, Copy)]
enum Judge {
    AtOnce,
    AfterASecond,
}

/// Whether the browser runs scripts of pages.
#[derive(Debug, Clone, Copy)]
enum Scripts {
    Run,
    Off,
}

async fn judged_by(judge: fn(&Call) -> Reply) -> World {
    let world = World::start(Home::embedded(), Reply::Refusal).await;
    world.judge.rule(judge);
    world
}

impl Site {
    /// Starts everything; `None` without a browser.
    async fn start(judge: Judge) -> Option<Self> {
        let programs = Programs::find()?;
        let dir = tempfile::tempdir().unwrap();
        let [judging, address] = std::array::from_fn(|_| free_address());
        let none = BTreeMap::new();
        let (port, latency) = (
            judging.port().to_string(),
            match judge {
                Judge::AtOnce => "0ms",
                Judge::AfterASecond => "1200ms",
            },
        );
        let simulated = gavel(
            &none,
            &["simulate-judge", "--port", &port, "--latency", latency],
        );
        let judge = Process::spawn("judge", dir.path(), simulated);
        let env: BTreeMap<String, String> = [
            ("GAVEL_BIND", address.to_string()),
            (
                "GAVEL_DATA_DIR",
                dir.path().join("data").display().to_string(),
            ),
            ("DEFAULT_LLM_PROVIDER", "simulated".to_owned()),
            ("GAVEL_SIMULATED_URL", format!("http://{judging}/v1")),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into();
        let _up = Process::spawn("up", dir.path(), gavel(&env, &["up"]));
        let api = Api::new(&address.to_string());
        eventually(PATIENCE, "it is live", || async {
            let answer = api.try_send("GET", "/livez", None, &[]).await?;
            (answer.status == 200).then_some(())
        })
        .await;
        let up = Up { judge, _up };
        Some(programs.open_site(api, up, dir, Scripts::Run).await)
    }
}

impl Site<World> {
    /// Opens a browser on an in-process service with a controllable judge. Returns `None`, and starts no service,
    /// without a browser.
    async fn over(world: impl Future<Output = World>) -> Option<Self> {
        let programs = Programs::find()?;
        let world = world.await;
        let dir = tempfile::tempdir().unwrap();
        let api = world.api.clone();
        Some(programs.open_site(api, world, dir, Scripts::Run).await)
    }
}

struct Programs {
    chromedriver: PathBuf,
    chromium: PathBuf,
}

impl Programs {
    fn find() -> Option<Self> {
        let folders = ["/usr/bin", "/usr/lib/chromium", "/usr/local/bin"];
        let found = program("chromedriver", &folders).zip(program("chromium", &folders));
        let Some((chromedriver, chromium)) = found else {
            let required = std::env::var("GAVEL_TEST_BROWSER").is_ok_and(|v| v == "required");
            assert!(!required, "chromium and chromedriver are missing");
            eprintln!(
                "SKIPPED: chromium or chromedriver is missing (Debian: apt install chromium chromium-driver)"
            );
            return None;
        };
        Some(Self {
            chromedriver,
            chromium,
        })
    }

    async fn open_site<Of>(
        self,
        api: Api,
        gavel: Of,
        dir: tempfile::TempDir,
        scripts: Scripts,
    ) -> Site<Of> {
        let driving = free_address();
        let mut command = Command::new(self.chromedriver);
        command.arg(format!("--port={}", driving.port()));
        let chromedriver = Process::spawn("chromedriver", dir.path(), command);
        Site {
            driver: browse(driving, &self.chromium, dir.path(), scripts).await,
            api,
            gavel,
            dir,
            _chromedriver: chromedriver,
        }
    }
}

impl<Of> Site<Of> {
    async fn open(&self, path: &str) {
        let url = format!("{}{path}", self.api.base());
        self.driver.goto(url).await.unwrap();
    }

    async fn path(&self) -> String {
        let url = self.driver.current_url().await.unwrap();
        let base = self.api.base();
        let path = url.as_str().strip_prefix(base);
        path.unwrap_or_else(|| panic!("{url} isn't at {base}"))
            .to_owned()
    }

    async fn find(&self, css: &str) -> WebElement {
        let query = self.driver.query(By::Css(css.to_owned()));
        let query = query.wait(PATIENCE, Duration::from_millis(100));
        let found = query.first().await;
        found.unwrap_or_else(|error| panic!("{css}: {error}"))
    }

    async fn click(&self, css: &str) {
        self.find(css).await.click().await.unwrap();
    }

    /// Submits a form and waits for its target page, because a page opened before that would be lost.
    async fn submit(&self, css: &str) {
        self.run("window.gavelLeft = false").await;
        self.click(css).await;
        eventually(
            PATIENCE,
            &format!("{css} leads to another page"),
            || async {
                let script =
                    "return window.gavelLeft === undefined && document.readyState === 'complete'";
                let answer = self.driver.execute(script, Vec::new()).await.ok()?;
                (answer.json() == &json!(true)).then_some(())
            },
        )
        .await;
    }

    /// Waits until an element shows this text. The element may be replaced in between.
    async fn shows(&self, css: &str, words: &str) {
        eventually(PATIENCE, &format!("{css} shows {words:?}"), || async {
            let element = self.driver.find(By::Css(css.to_owned())).await.ok()?;
            let text = element.text().await.ok()?;
            text.contains(words).then_some(())
        })
        .await;
    }

    async fn run(&self, script: &str) -> Value {
        let answer = self.driver.execute(script, Vec::new()).await.unwrap();
        answer.json().clone()
    }

    /// Returns the value that a script passes to its callback.
    async fn answer(&self, script: &str) -> Value {
        let script = format!("const done = arguments[arguments.length - 1]; {script}");
        let answer = self.driver.execute_async(script, Vec::new()).await.unwrap();
        answer.json().clone()
    }

    /// Returns script errors and policy violations since the last call.
    async fn complaints(&self) -> Vec<String> {
        let kept = self.run("return window.gavelComplaints || []").await;
        serde_json::from_value(kept).unwrap()
    }

    /// Sets the viewport in CSS pixels; narrow ones emulate a phone.
    async fn resize(&self, width: u32, height: u32) {
        let is_phone = width < 640;
        let wanted =
            json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": is_phone});
        devtools(&self.driver, "Emulation.setDeviceMetricsOverride", wanted).await;
    }

    async fn is_wide(&self, width: u32) {
        eventually(PATIENCE, "the page has its width", || async {
            let wide = self
                .run("return document.documentElement.clientWidth")
                .await;
            (wide == width).then_some(())
        })
        .await;
    }

    async fn hurry(&self) {
        let source =
            "const own = window.setInterval; window.setInterval = (f, ms) => own(f, ms / 100);";
        let command = "Page.addScriptToEvaluateOnNewDocument";
        devtools(&self.driver, command, json!({"source": source})).await;
    }

    async fn prefer(&self, scheme: &str) {
        let wanted = json!({"features": [{"name": "prefers-color-scheme", "value": scheme}]});
        devtools(&self.driver, "Emulation.setEmulatedMedia", wanted).await;
    }

    fn downloads(&self) -> PathBuf {
        self.dir.path().join(DOWNLOADS)
    }

    /// Quits the browser, which would otherwise outlive its driver; returns the service under test.
    async fn close(self) -> Of {
        self.driver.clone().quit().await.unwrap();
        self.gavel
    }
}

async fn browse(driving: SocketAddr, chromium: &Path, dir: &Path, scripts: Scripts) -> WebDriver {
    let mut capabilities = DesiredCapabilities::chrome();
    capabilities
        .set_binary(&chromium.display().to_string())
        .unwrap();
    let profile = format!("--user-data-dir={}", dir.join("profile").display());
    for argument in [
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--no-first-run",
        "--window-size=1280,1000",
        profile.as_str(),
    ] {
        capabilities.add_arg(argument).unwrap();
    }
    let scripts = match scripts {
        Scripts::Run => 1,
        Scripts::Off => 2,
    };
    let settings = json!({
        "download.default_directory": dir.join(DOWNLOADS),
        "download.prompt_for_download": false,
        "profile.managed_default_content_settings.javascript": scripts,
    });
    capabilities
        .add_experimental_option("prefs", settings)
        .unwrap();
    let server = format!("http://{driving}");
    let driver = eventually(PATIENCE, "a browser starts", || async {
        WebDriver::new(&server, capabilities.clone()).await.ok()
    })
    .await;
    let listen = "window.gavelComplaints = []; \
        document.addEventListener('securitypolicyviolation', e => window.gavelComplaints.push('policy: ' + e.violatedDirective + ' ' + e.blockedURI)); \
        window.addEventListener('error', e => window.gavelComplaints.push('error: ' + e.message));";
    devtools(
        &driver,
        "Page.addScriptToEvaluateOnNewDocument",
        json!({"source": listen}),
    )
    .await;
    driver
}

async fn devtools(driver: &WebDriver, command: &str, parameters: Value) -> Value {
    let tools = driver.cdp();
    tools.send_raw(command, parameters).await.unwrap()
}
