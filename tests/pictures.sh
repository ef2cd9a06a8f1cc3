#!/usr/bin/env bash
# Draws every page of the dashboard with demo data, as a desk and a phone show it, in light and dark, into target/pictures.
#
#   tests/pictures.sh
#
# Needs chromium and chromedriver; as root on a Debian they are installed if missing. Exit codes: 0 drawn, 1 a page couldn't
# be drawn, 2 a program is missing.
set -euo pipefail
exec 2>&1
cd "$(dirname "${BASH_SOURCE[0]}")/.."
[[ -n ${HOME:-} && -d $HOME/.cargo/bin ]] && PATH=$PATH:$HOME/.cargo/bin

. tests/servers.sh
find_browser
command -v chromium >/dev/null && command -v chromedriver >/dev/null || exit 2

rm -rf target/pictures
GAVEL_TEST_BROWSER=required cargo test --locked --quiet --test it -- --ignored --exact \
    browser::pictures::pages_are_captured_for_desktop_and_phone_in_light_and_dark || exit 1
say "$(find target/pictures -name '*.png' | wc -l) pictures in target/pictures"
