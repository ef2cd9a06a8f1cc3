//! Markdown of judges and agents as HTML that can do no harm: raw HTML becomes text, pictures become links, links lead to http,
//! https and mailto alone.

use pulldown_cmark::{CowStr, Event, Options, Parser, Tag, TagEnd, html};

/// Longer texts are shown as they are, bytes: a page stays light.
const MAX_BYTES: usize = 256 << 10;

/// The HTML of a text. Safe as it is.
pub(super) fn render(text: &str) -> String {
    if text.len() > MAX_BYTES {
        return format!("<pre>{}</pre>", escaped(text));
    }
    let options = Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH;
    let events = Parser::new_ext(text, options).map(harmless);
    let mut page = String::new();
    html::push_html(&mut page, events);
    page
}

fn harmless(event: Event<'_>) -> Event<'_> {
    match event {
        Event::Html(text) | Event::InlineHtml(text) => Event::Text(text),
        Event::Start(Tag::HtmlBlock) => Event::Start(Tag::Paragraph),
        Event::End(TagEnd::HtmlBlock) => Event::End(TagEnd::Paragraph),
        Event::Start(Tag::Link { dest_url, .. }) => opening(&dest_url),
        // A picture would be fetched from elsewhere: its words stand for it.
        Event::Start(Tag::Image { dest_url, .. }) => opening(&dest_url),
        Event::End(TagEnd::Link | TagEnd::Image) => Event::InlineHtml("</a>".into()),
        same @ (Event::Start(_)
        | Event::End(_)
        | Event::Text(_)
        | Event::Code(_)
        | Event::InlineMath(_)
        | Event::DisplayMath(_)
        | Event::FootnoteReference(_)
        | Event::SoftBreak
        | Event::HardBreak
        | Event::Rule
        | Event::TaskListMarker(_)) => same,
    }
}

/// A link that tells its target nothing; one that leads nowhere good has no target.
fn opening<'a>(to: &CowStr<'_>) -> Event<'a> {
    let lower = to.trim_start().to_ascii_lowercase();
    let known = ["http://", "https://", "mailto:"];
    let tag = if known.iter().any(|scheme| lower.starts_with(scheme)) {
        format!(
            "<a href=\"{}\" rel=\"noopener noreferrer nofollow\">",
            escaped(to)
        )
    } else {
        "<a>".to_owned()
    };
    Event::InlineHtml(tag.into())
}

/// A text whose characters stand for themselves in HTML, within attributes too.
pub(super) fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            c => safe.push(c),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markdown_is_drawn() {
        let page = render("**a** `b`\n\n- c\n\n| d | e |\n| - | - |\n| 1 | 2 |");
        for part in [
            "<strong>a</strong>",
            "<code>b</code>",
            "<li>c</li>",
            "<td>1</td>",
        ] {
            assert!(page.contains(part), "{part}: {page}");
        }
    }

    #[test]
    fn nothing_in_it_runs_loads_or_leads_astray() {
        for hostile in [
            "<script>alert(1)</script>",
            "a <img src=x onerror=alert(1)> b",
            "<div onclick='x'>\nblock\n</div>",
            "[x](javascript:alert(1))",
            "[x](JaVaScRiPt:alert(1))",
            "[x](data:text/html,<script>1</script>)",
            "[x](\u{1}javascript:alert(1))",
            "![p](https://evil.example/p.png)",
            "<javascript:alert(1)>",
            "[x](https://e.example/\"onmouseover=\"alert(1))",
            "```<script>\n</script>\n```",
            "| <script>x</script> |\n| - |\n| <b onclick=x>y</b> |",
        ] {
            let page = render(hostile).to_ascii_lowercase();
            for bad in [
                "<script",
                "<img",
                "<div",
                "<b ",
                "href=\"javascript",
                "href=\"data",
                "\" onmouseover",
                "\"onmouseover",
            ] {
                assert!(!page.contains(bad), "{hostile} gives {page}");
            }
        }
        let link = render("[x](https://ok.example/?a=1&b=2)");
        assert!(
            link.contains("<a href=\"https://ok.example/?a=1&amp;b=2\" rel="),
            "{link}"
        );
    }

    #[test]
    fn a_very_long_text_is_shown_as_it_is() {
        let page = render(&"<b>*a*".repeat(60_000));
        assert!(page.starts_with("<pre>&lt;b&gt;*a*"));
    }
}
