# Node.js with the package pg: a language that a test writes the outbox from. Not a server, only to be there.
# shellcheck shell=bash disable=SC2154

node_pg=8.16.3

node_home() { echo "$cache/node-pg-$node_pg"; }

find_node() {
  { have node && have npm; } || install_debian nodejs npm ||
    die "Node.js is missing: install node and npm, or name a folder whose node_modules has pg: SKALD_TEST_NODE=FOLDER"
}

pid_node() { echo none; }

runs_node() { [ -d "$(node_home)/node_modules/pg" ] && have node; }

up_node() {
  if given node || runs_node; then return; fi
  mkdir -p "$cache"
  local work
  work=$(mktemp -d "$cache/fetch.XXXXXX")
  quietly npm install --no-audit --no-fund --prefix "$work" "pg@$node_pg" || { rm -rf "$work"; die "npm could not fetch pg $node_pg"; }
  rm -rf "$(node_home)"
  mv "$work" "$(node_home)"
}

restart_node() { :; }

down_node() { :; } # kept, as all downloads are
