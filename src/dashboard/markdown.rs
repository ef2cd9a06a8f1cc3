//! Markdown of judges and agents as HTML that can do no harm: raw HTML becomes text, pictures become links, links lead to http,
//! https and mailto alone.

use pulldown_cmark::{CowStr, Event, Options, Parser, Tag, TagEnd, html};

/// The HTML of a text that has no page of its own, bytes: a page stays light.
const ALONE: usize = 32 << 10;
/// Shorter beginnings aren't tried, bytes: what they are drawn as is too long, whatever they are.
const LEAST: usize = 64;

/// The beginning of a text as HTML. Safe as it is.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Cut {
    /// At most as many bytes as were asked for.
    pub(super) html: String,
    /// How many bytes of the text it shows.
    pub(super) taken: usize,
    of: usize,
}

impl Cut {
    /// Whether it shows all of the text.
    pub(super) fn is_whole(&self) -> bool {
        self.taken == self.of
    }
}

/// The HTML of a text, as far as a page holds it. Safe as it is.
pub(super) fn render(text: &str) -> String {
    let mut cut = within(text, ALONE);
    if !cut.is_whole() {
        cut.html
            .push_str("<p class=\"dim\">It is longer; the API has the whole text.</p>");
    }
    cut.html
}

/// The beginning of a text, drawn: as much of it as `most` bytes of HTML hold. A few characters may become megabytes (tables), so
/// that it is what comes out that counts.
pub(super) fn within(text: &str, most: usize) -> Cut {
    let mut end = text.len().min(most);
    while end >= LEAST || end == text.len() {
        let part = beginning(text, end);
        if let Some(html) = drawn(part, most) {
            return Cut {
                html,
                taken: part.len(),
                of: text.len(),
            };
        }
        end = end.min(text.len().saturating_sub(1)) / 2;
        if end < LEAST {
            break;
        }
    }
    let frame = "<pre></pre>".len();
    let mut cut = plain(text, most.saturating_sub(frame));
    cut.html = format!("<pre>{}</pre>", cut.html);
    cut
}

/// About the first `end` bytes of a text, to the end of a line where one is near.
fn beginning(text: &str, end: usize) -> &str {
    let part = text
        .get(..text.floor_char_boundary(end))
        .unwrap_or_default();
    if part.len() == text.len() {
        return part;
    }
    match part.rfind('\n') {
        Some(line) if line >= part.len() / 2 => part.get(..line).unwrap_or(part),
        Some(_) | None => part,
    }
}

/// A text drawn whole, unless that takes more than `most` bytes.
pub(super) fn drawn(text: &str, most: usize) -> Option<String> {
    let options = Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH;
    let events = Parser::new_ext(text, options).map(harmless);
    let mut page = Bounded {
        text: String::new(),
        most,
    };
    html::write_html_fmt(&mut page, events).ok()?;
    Some(page.text)
}

/// HTML that ends as soon as it is too long.
struct Bounded {
    text: String,
    most: usize,
}

impl std::fmt::Write for Bounded {
    fn write_str(&mut self, more: &str) -> std::fmt::Result {
        if self.text.len() + more.len() > self.most {
            return Err(std::fmt::Error);
        }
        self.text.push_str(more);
        Ok(())
    }
}

/// The beginning of a text as it is, escaped: as much of it as `most` bytes hold.
pub(super) fn plain(text: &str, most: usize) -> Cut {
    let mut html = String::new();
    let mut taken = 0;
    let mut character = [0_u8; 4];
    for c in text.chars() {
        let safe = escaped(c.encode_utf8(&mut character));
        if html.len() + safe.len() > most {
            break;
        }
        html.push_str(&safe);
        taken += c.len_utf8();
    }
    Cut {
        html,
        taken,
        of: text.len(),
    }
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
    fn what_comes_out_is_bounded_whatever_goes_in() {
        let table = format!(
            "|{}\n|{}\n{}",
            "a|".repeat(200),
            "-|".repeat(200),
            "|a|\n".repeat(2_000)
        );
        for text in [
            "*a* b\n".repeat(60_000),
            table,
            ">".repeat(10_000),
            "'".repeat(50_000),
            "* a\n".repeat(9_000),
            "ä".repeat(50_000),
            "# a\n".repeat(9_000),
        ] {
            for most in [100, 2_000, 16_000] {
                let cut = within(&text, most);
                assert!(cut.html.len() <= most, "{} of {most}", cut.html.len());
                assert!(cut.taken > 0 && !cut.is_whole());
                let cut = plain(&text, most);
                assert!(cut.html.len() <= most && cut.taken > 0);
            }
            assert!(render(&text).contains("It is longer"));
        }
        let cut = within("**a**", 100);
        assert!(cut.is_whole());
        assert_eq!(cut.html, "<p><strong>a</strong></p>\n");
    }
}
