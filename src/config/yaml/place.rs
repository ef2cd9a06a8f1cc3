//! Where a key stands in a file's text. The parser keeps no places, so this reads indentation: enough for the block style
//! that people write. In flow style (`{a: 1}`) the place is that of the line it begins on.

/// The line, from 1, of the deepest part of a dotted path (`dimensions.0.max`) that the text has; `None` if it has none.
pub fn line_of(text: &str, dotted_path: &str) -> Option<usize> {
    place_of(text, dotted_path).map(|(line, _)| line)
}

/// The same with the column, from 1, in characters.
pub fn place_of(text: &str, dotted_path: &str) -> Option<(usize, usize)> {
    if dotted_path.is_empty() {
        return None;
    }
    let wanted: Vec<&str> = dotted_path.split('.').collect();
    let mut stack: Vec<Level> = Vec::new();
    let mut best: Option<(usize, (usize, usize))> = None;
    let mut block: Option<usize> = None;
    for (number, line) in text.lines().enumerate() {
        let indent = line.len() - line.trim_start_matches(' ').len();
        // Lines of a block scalar (`|`, `>`) are text; it ends where the indentation falls back to its key's.
        match block {
            Some(_) if line.trim().is_empty() => continue,
            Some(of) if indent > of => continue,
            Some(_) | None => block = None,
        }
        for (column, key) in parts(line) {
            let index = enter(&mut stack, column, key);
            let path = stack.iter().map(|level| level.key.as_str());
            let matches = path
                .zip(&wanted)
                .take_while(|(have, want)| have == *want)
                .count();
            // Only a place whose whole own path is wanted is on the way to the key.
            if matches == index + 1 && best.is_none_or(|(depth, _)| depth < matches) {
                best = Some((matches, (number + 1, column + 1)));
            }
        }
        if opens_block(line) {
            block = stack.last().map(|level| level.column);
        }
    }
    best.map(|(_, place)| place)
}

/// The first place of a piece of text at or after a line. Nothing is looked up when the piece is empty.
pub(super) fn of_text(text: &str, from_line: usize, piece: &str) -> Option<(usize, usize)> {
    if piece.is_empty() {
        return None;
    }
    text.lines()
        .enumerate()
        .skip(from_line.saturating_sub(1))
        .find_map(|(number, line)| {
            let at = line.find(piece)?;
            Some((number + 1, line[..at].chars().count() + 1))
        })
}

struct Level {
    column: usize,
    key: String,
    /// For an item of a list: its number.
    item: Option<usize>,
}

/// What a line opens: `- ` items and a `key:`, each with its column.
fn parts(line: &str) -> Vec<(usize, Option<&str>)> {
    let mut found = Vec::new();
    let mut column = line.len() - line.trim_start_matches(' ').len();
    let mut rest = &line[column..];
    while let Some(after) = rest.strip_prefix('-') {
        if !(after.is_empty() || after.starts_with(' ')) {
            break;
        }
        found.push((column, None));
        let inner = after.trim_start_matches(' ');
        column += 1 + after.len() - inner.len();
        rest = inner;
    }
    if let Some(key) = key_of(rest) {
        found.push((column, Some(key)));
    }
    found
}

/// Whether the value on a line begins a block scalar: `key: |`, `- >-`, `key: |2`.
fn opens_block(line: &str) -> bool {
    let last_word = line.trim_end().rsplit(' ').next().unwrap_or_default();
    let indicator =
        last_word.trim_end_matches(|c: char| c == '-' || c == '+' || c.is_ascii_digit());
    matches!(indicator, "|" | ">") && !parts(line).is_empty()
}

fn key_of(text: &str) -> Option<&str> {
    for quote in ['"', '\''] {
        if let Some(inner) = text.strip_prefix(quote) {
            let end = inner.find(quote)?;
            let after = inner[end + 1..].trim_start();
            return after.starts_with(':').then_some(&inner[..end]);
        }
    }
    if text.starts_with(['#', '{', '[', '%', '&', '*', '!']) {
        return None;
    }
    let end = text
        .find(": ")
        .or_else(|| text.trim_end().strip_suffix(':').map(str::len))?;
    Some(text[..end].trim_end())
}

/// Steps into a key or the next item; answers its depth from 0.
fn enter(stack: &mut Vec<Level>, column: usize, key: Option<&str>) -> usize {
    // A list may stand in the same column as the key that holds it.
    let mut last_item = None;
    while let Some(top) = stack.last() {
        let stays =
            top.column < column || (top.column == column && key.is_none() && top.item.is_none());
        if stays {
            break;
        }
        if top.column == column {
            last_item = top.item;
        }
        stack.pop();
    }
    let item = match key {
        Some(_) => None,
        None => Some(last_item.map_or(0, |number| number + 1)),
    };
    stack.push(Level {
        column,
        key: key.map_or_else(|| item.unwrap_or_default().to_string(), str::to_owned),
        item,
    });
    stack.len() - 1
}
