//! Pages on a phone.

use super::showroom::{Room, Showroom};

/// How wide and high a phone is, CSS pixels.
const PHONE: (u32, u32) = (390, 844);

#[tokio::test]
async fn no_page_is_wider_than_a_phone() {
    let Some(mut showroom) = Showroom::open().await else {
        return;
    };
    showroom.site.resize(PHONE.0, PHONE.1).await;
    let rooms = showroom.empty_rooms();
    let mut faults = too_wide(&showroom, &rooms).await;
    let rooms = showroom.furnish().await;
    faults.extend(too_wide(&showroom, &rooms).await);
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    showroom.close().await;
}

async fn too_wide(showroom: &Showroom, rooms: &[Room]) -> Vec<String> {
    // What stands in a box of its own may be wider than it: the box scrolls.
    let script = "const wide = document.documentElement.clientWidth; \
        const own = e => { for (let p = e.parentElement; p; p = p.parentElement) { if (getComputedStyle(p).overflowX !== 'visible') return true } return false }; \
        if (document.scrollingElement.scrollWidth <= wide) return []; \
        return [document.scrollingElement.scrollWidth + ' pixels wide'].concat(Array.from(document.querySelectorAll('body *')) \
            .filter(e => e.getBoundingClientRect().right > wide + 1 && !own(e)) \
            .map(e => e.tagName + '.' + e.className + ' ' + Math.round(e.getBoundingClientRect().right)).slice(0, 5))";
    let mut faults = Vec::new();
    for room in rooms {
        showroom.visit(room).await;
        let wide = showroom.site.run("return document.documentElement.clientWidth").await;
        assert_eq!(wide, PHONE.0, "{}: the browser draws a phone", room.name);
        let found = showroom.site.run(script).await;
        let found: Vec<String> = serde_json::from_value(found).unwrap();
        faults.extend(found.into_iter().map(|fault| format!("{}: {fault}", room.name)));
    }
    faults
}
