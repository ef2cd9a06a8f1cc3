//! Pictures of every page, for people to look at: `tests/pictures.sh`.

use super::showroom::{Room, Showroom};
use super::*;
use crate::support::home::built_in;

/// How wide pages are drawn, and how high at least, CSS pixels: a desk, a phone.
const SIZES: [(u32, u32); 2] = [(1280, 800), (390, 844)];

#[tokio::test]
#[ignore = "tests nothing: tests/pictures.sh runs it"]
async fn every_page_is_drawn_for_a_desk_and_a_phone_in_light_and_dark() {
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
            // A picture ends at the window's lower edge: it is made as high as the page.
            // (A page that was drawn for a desk just before takes a moment to be a phone's.)
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
