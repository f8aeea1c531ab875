# Chromium, in which the pages of the console are tested. Not a server, only to be there.
# shellcheck shell=bash disable=SC2154

chromium_program() { command -v chromium || command -v chromium-browser || command -v google-chrome || true; }

find_chromium() {
  [ -n "$(chromium_program)" ] || install_debian chromium ||
    die "Chromium is missing: install it, or name a program: SKALD_TEST_CHROMIUM=FILE"
}

pid_chromium() { echo none; }

runs_chromium() { [ -n "$(chromium_program)" ]; }

up_chromium() { given chromium || runs_chromium; }

restart_chromium() { :; }

down_chromium() { :; } # kept, as all that is installed is
