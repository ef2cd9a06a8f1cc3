//! Accessibility of every page by axe-core in light and dark, and page width on a phone.

use super::showroom::{Room, Showroom};
use super::*;

/// Window sizes in CSS pixels.
const DESK: (u32, u32) = (1280, 1000);
const PHONE: (u32, u32) = (390, 844);

#[tokio::test]
async fn pages_are_accessible_in_light_and_dark_and_fit_a_phone() {
    let Some(mut showroom) = Showroom::open().await else {
        return;
    };
    let rooms = showroom.empty_rooms();
    let mut faults = look_around(&showroom, &rooms).await;
    let rooms = showroom.furnish().await;
    faults.extend(look_around(&showroom, &rooms).await);
    showroom.close().await;
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

async fn look_around(showroom: &Showroom, rooms: &[Room]) -> Vec<String> {
    let site = &showroom.site;
    let mut faults = Vec::new();
    for room in rooms {
        let mut add = |how: &str, found: Vec<String>| {
            let found = found.into_iter();
            faults.extend(found.map(|fault| format!("{}, {how}: {fault}", room.name)));
        };
        site.resize(DESK.0, DESK.1).await;
        showroom.visit(room).await;
        for scheme in ["light", "dark"] {
            site.prefer(scheme).await;
            add(scheme, look(site).await);
        }
        site.resize(PHONE.0, PHONE.1).await;
        site.is_wide(PHONE.0).await;
        add("on a phone", too_wide(site).await);
        add("the browser", site.complaints().await);
    }
    faults
}

pub(super) async fn look<Of>(site: &Site<Of>) -> Vec<String> {
    site.driver.execute(AXE, Vec::new()).await.unwrap();
    let script = "axe.run({resultTypes: ['violations']}).then(\
        r => done(r.violations.flatMap(v => v.nodes.map(n => v.id + ': ' + n.target.join(' ') + ' ' + (n.any[0] ? n.any[0].message : '')))), \
        e => done(['axe: ' + e]))";
    serde_json::from_value(site.answer(script).await).unwrap()
}

/// Returns the elements that make the page wider than the window, except those in a scrolling box.
async fn too_wide<Of>(site: &Site<Of>) -> Vec<String> {
    let script = "const wide = document.documentElement.clientWidth, whole = document.scrollingElement.scrollWidth; \
        if (whole <= wide) return []; \
        const boxed = e => { for (let p = e.parentElement; p; p = p.parentElement) if (getComputedStyle(p).overflowX !== 'visible') return true; return false }; \
        return [whole + ' pixels wide'].concat(Array.from(document.querySelectorAll('body *')) \
            .filter(e => e.getBoundingClientRect().right > wide + 1 && !boxed(e)) \
            .map(e => e.tagName + '.' + e.className + ' ends at ' + Math.round(e.getBoundingClientRect().right)).slice(0, 5))";
    serde_json::from_value(site.run(script).await).unwrap()
}
