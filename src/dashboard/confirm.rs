//! The question before what costs money or stops others' work, asked by the server where the browser couldn't ask it: without
//! JavaScript a form arrives without the word that `live.js` adds once its person has said yes.

use askama::Template;

use super::form::Form;
use super::frame::Frame;
use super::page::{Page, html};
use super::site::Site;

/// What is asked.
pub(super) struct Question {
    /// The question.
    pub(super) title: String,
    /// What follows from a yes.
    pub(super) consequence: String,
    /// The yes.
    pub(super) button: &'static str,
    /// Whether it stops or ends something.
    pub(super) stops: bool,
    /// The part of the site where it is asked.
    pub(super) part: &'static str,
}

#[derive(Template)]
#[template(path = "confirm.html")]
struct ConfirmPage {
    frame: Frame,
    question: Question,
    action: String,
    fields: Vec<(String, String)>,
    back: String,
}

/// Whether the person has said yes, or is asked by a script: a piece is asked for by htmx, whose page asks by itself.
pub(super) fn is_sure(form: &Form) -> bool {
    form.visitor.piece || form.ticked("sure")
}

/// Asks; a yes sends the same form to `action`.
pub(super) async fn ask(site: &Site, form: &Form, action: String, question: Question) -> Page {
    let title = question.title.clone();
    html(&ConfirmPage {
        frame: Frame::of(site, form.visitor.clone(), question.part, title).await,
        fields: form.pairs().cloned().collect(),
        back: form.back().unwrap_or("/").to_owned(),
        question,
        action,
    })
}
