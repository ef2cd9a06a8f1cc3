//! Pages over real HTTP on the API's server, as seen by a browser without JavaScript.

mod address;
mod annotate;
mod batches;
mod compare;
mod criteria;
mod forms;
mod insights;
mod rescore;
mod score;
mod sessions;
mod sign_in;
mod truth;
mod webhooks;

use super::auth::guarded;
use super::*;

struct Browser<'a> {
    server: &'a Server,
    cookie: String,
    form_token: String,
}

struct Shown {
    status: u16,
    location: Option<String>,
    text: String,
}

impl<'a> Browser<'a> {
    fn of(server: &'a Server) -> Self {
        let form_token = Uuid::new_v4().simple().to_string();
        Self {
            server,
            cookie: format!("gavel_form={form_token}"),
            form_token,
        }
    }

    async fn signed_in(server: &'a Server, token: &str) -> Self {
        let mut browser = Self::of(server);
        let fields = [("token", token), ("form_token", &browser.form_token)];
        let asked = fields_of(server.post("/sign-in"), &fields);
        let asked = asked.header("cookie", &browser.cookie).send();
        let cookies = cookies_of(&asked.await.unwrap());
        let form_token = cookies[1].strip_prefix("gavel_form=").unwrap().to_owned();
        browser.cookie = cookies.join("; ");
        browser.form_token = form_token;
        browser
    }

    async fn send(&self, request: RequestBuilder) -> Shown {
        let request = request.header("accept", "text/html");
        let response = request.header("cookie", &self.cookie).send().await.unwrap();
        let policy = header(&response, "content-security-policy");
        assert!(policy.is_some_and(|policy| policy.starts_with("default-src 'none'")));
        Shown {
            status: response.status().as_u16(),
            location: header(&response, "location"),
            text: response.text().await.unwrap(),
        }
    }

    /// Fetches a page, which must exist, be complete, and have only our scripts.
    async fn page(&self, path: &str) -> String {
        let shown = self.send(self.server.get(path)).await;
        assert_eq!(shown.status, 200, "{path}: {}", shown.text);
        harmless(path, &shown.text);
        shown.text
    }

    async fn form(&self, path: &str, fields: &[(&str, &str)]) -> Shown {
        let mut fields = fields.to_vec();
        fields.push(("form_token", &self.form_token));
        self.send(fields_of(self.server.post(path), &fields)).await
    }
}

fn cookies_of(response: &Response) -> Vec<String> {
    let set = response.headers().get_all("set-cookie").iter();
    let text = |value: &reqwest::header::HeaderValue| value.to_str().unwrap().to_owned();
    set.map(|value| text(value).split(';').next().unwrap().to_owned())
        .collect()
}

fn fields_of(request: RequestBuilder, fields: &[(&str, &str)]) -> RequestBuilder {
    let mut body = form_urlencoded::Serializer::new(String::new());
    body.extend_pairs(fields);
    let media_type = "application/x-www-form-urlencoded";
    request
        .header("content-type", media_type)
        .body(body.finish())
}

fn harmless(path: &str, text: &str) {
    let ours = text.matches("<script src=\"/assets/").count();
    assert_eq!(text.matches("<script").count(), ours, "{path}: {text}");
    for bad in [" onclick=", " onload=", " style=", "href=\"javascript"] {
        assert!(!text.contains(bad), "{path}: {bad}: {text}");
    }
}

fn in_order(text: &str, parts: &[&str]) {
    let mut from = 0;
    for part in parts {
        let at = text[from..].find(part);
        from += at.unwrap_or_else(|| panic!("{part} isn't behind {from}: {text}"));
    }
}
