#!/usr/bin/env bash
# Takes screenshots of every dashboard page with demo data, for desktop and phone, light and dark, in target/pictures.
#
#   tests/pictures.sh
#
# Needs chromium and chromedriver; as root on Debian they are installed if missing. Exit codes: 0 done, 1 a page
# failed, 2 a program is missing.
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
