//! Screenshots of every page for manual review: `tests/pictures.sh`.

use super::showroom::{Room, Showroom};
use super::*;
use crate::support::home::built_in;

/// Viewport widths and minimum heights in CSS pixels: desktop and phone.
const SIZES: [(u32, u32); 2] = [(1280, 800), (390, 844)];

#[tokio::test]
#[ignore = "tests nothing: tests/pictures.sh runs it"]
async fn pages_are_captured_for_desktop_and_phone_in_light_and_dark() {
    let folder = built_in("target/pictures");
    std::fs::create_dir_all(&folder).unwrap();
    let mut showroom = Showroom::open().await.expect("there is a browser");
    let rooms = showroom.empty_rooms();
    draw(&showroom, &rooms, &folder).await;
    let rooms = showroom.furnish().await;
    draw(&showroom, &rooms, &folder).await;
    showroom.close().await;
}

async fn draw(showroom: &Showroom, rooms: &[Room], folder: &Path) {
    let hide = json!({"hidden": true});
    devtools(&showroom.site.driver, "Emulation.setScrollbarsHidden", hide).await;
    for room in rooms {
        showroom.visit(room).await;
        for (width, height) in SIZES {
            showroom.site.resize(width, height).await;
            // A screenshot ends at the lower edge of the window, so the window gets the height of the page. Layout
            // after a resize needs a moment.
            showroom.site.is_wide(width).await;
            let whole = showroom
                .site
                .run("return document.scrollingElement.scrollHeight")
                .await;
            let whole = whole.as_u64().and_then(|whole| u32::try_from(whole).ok());
            showroom
                .site
                .resize(width, whole.unwrap().max(height))
                .await;
            for scheme in ["light", "dark"] {
                showroom.site.prefer(scheme).await;
                let name = format!("{}-{width}-{scheme}.png", room.name);
                let name = folder.join(name);
                showroom.site.driver.screenshot(&name).await.unwrap();
            }
        }
    }
}
