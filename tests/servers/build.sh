#!/bin/sh
# Builds the test servers that come as source, once per machine and version, and links them into a
# virtual environment: build.sh .venv/bin. What can't be had is named, and its tests are skipped, except
# in CI; then the exit code is 1.
set -eu
bin=$(cd "$1" && pwd)
cd "$(dirname "$0")"
cache=${XDG_CACHE_HOME:-$HOME/.cache}/lakelog-servers
mkdir -p "$cache"
scratch=$(mktemp -d "$cache/building-XXXXXX")
trap 'rm -rf "$scratch"' EXIT

code=0
skipped() {
  echo "$1: THE TESTS OF $name WILL BE SKIPPED."
  code=1
  return 1
}

# Runs a command that makes $scratch/$name, unless $built is there.
build() {
  [ -e "$built" ] && return 0
  command -v "$1" >/dev/null || skipped "There is no $1" || return 1
  echo "Building $name (once per machine, some minutes) ..."
  if nice -n 10 "$@" >"$scratch/log" 2>&1; then
    [ -e "$built" ] || mv "$scratch/$name" "$built"  # another one may have been quicker
  else
    tail -5 "$scratch/log"
    skipped "It can't be built"
  fi
}

export GOBIN="$scratch" GOFLAGS=-buildvcs=false
while read -r package; do
  name=$(basename "${package%@*}")
  built="$cache/$name-${package##*@}"
  build go install "$package" </dev/null && ln -sfn "$built" "$bin/$name" || true
done <go.txt

name=s3proxy
built="$cache/s3proxy-$(sed -n 's|.*<s3proxy.version>\(.*\)</.*|\1|p' pom.xml)"
cp pom.xml "$scratch"
command -v java >/dev/null || skipped "There is no java" || exit
if build mvn -q -B -f "$scratch/pom.xml" \
  dependency:copy-dependencies -DoutputDirectory="$scratch/s3proxy" -DincludeScope=runtime; then
  ln -sfn "$built" "$bin/s3proxy.jars"
fi
exit $code
