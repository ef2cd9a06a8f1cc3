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
    for room in rooms {
        showroom.visit(room).await;
        for (width, height) in SIZES {
            showroom.site.resize(width, height).await;
            for scheme in ["light", "dark"] {
                showroom.site.prefer(scheme).await;
                let name = format!("{}-{width}-{scheme}.png", room.name);
                // The element, as a picture of the window would end at its lower edge.
                let whole = showroom.site.find("html").await;
                whole.screenshot(&folder.join(name)).await.unwrap();
            }
        }
    }
}
