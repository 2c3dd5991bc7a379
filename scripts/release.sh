#!/bin/sh
# Says whether this commit can be released, and what a release would do. It changes nothing without --tag.
#
#   scripts/release.sh [--tag]      --tag: makes the signed tag vVERSION, here
#
# The version stands in Cargo.toml, CHANGELOG.md, debian/changelog and the manual pages; all have to agree. The tests have to have run
# on this commit: `make test-full` leaves target/test-logs/passed with the commit's hash.
set -u
. "$(dirname "$0")/env.sh"
wrong=0
tag=''
case ${1:-} in
    '') ;;
    --tag) tag=yes ;;
    *)
        sed -n '2,/^set/s/^# \{0,1\}//p' "$0" >&2
        exit 2
        ;;
esac

# expect WHAT FOUND WANTED
expect() {
    if [ "$2" = "$3" ]; then
        say "ok release: $1: $2"
    else
        say "FAIL release: $1 is '$2', not '$3'"
        wrong=1
    fi
}

commit=$(git rev-parse HEAD) || exit 1
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
say "release: Aquifer $version, of $commit"
others=$(sed -n 's/^aquifer[a-z-]* = .*version = "\([^"]*\)".*/\1/p' Cargo.toml | grep -vxF "$version" | sort -u | paste -sd' ')
expect 'other versions among the workspace dependencies' "$others" ''
expect 'Cargo.lock' "$(sed -n '/^name = "aquifer-cli"$/{n;s/^version = "\(.*\)"/\1/p;}' Cargo.lock)" "$version"
heading=$(sed -n 's/^## //p' CHANGELOG.md | head -n 1)
expect 'newest heading of CHANGELOG.md, without its date' "${heading% (????-??-??)}" "$version"
case $heading in
    *' ('????-??-??')') ;;
    *) expect 'the heading' "$heading" "$version (YEAR-MONTH-DAY)" ;;
esac
expect 'debian/changelog' "$(sed -n '1s/^aquifer (\([^)]*\)).*/\1/p' debian/changelog)" "$version"
expect 'its distribution' "$(sed -n '1s/^aquifer ([^)]*) \([^;]*\);.*/\1/p' debian/changelog)" unstable
for page in man/*.[1-8]; do
    expect "$page" "$(sed -n 's/^\.TH [A-Z-]* [1-8] "[^"]*" "Aquifer \([^"]*\)".*/\1/p' "$page")" "$version"
done
expect 'changes that are not committed' "$(git status --porcelain --untracked-files=no | wc -l)" 0
expect 'commit on which make test-full passed' "$(cat "$TARGET/test-logs/passed" 2>/dev/null)" "$commit"
expect "a tag v$version that is there already" "$(git tag -l "v$version")" ''

say
say 'A release would'
would() {
    printf '  %-45s # %s\n' "$1" "$2"
}
would "git tag -s v$version" 'make release ARGS=--tag'
would 'make dist' 'into build/dist'
would 'make test-packages' 'these packages in clean roots'
would 'gpg --detach-sign build/dist/SHA256SUMS' 'vouches for all of it'
would "git push origin v$version" 'by hand, and build/dist to where people fetch it'
if [ $wrong != 0 ]; then
    say 'release: not yet, for the reasons above'
    exit 1
fi
if [ -n "$tag" ]; then
    git tag -s "v$version" -m "Aquifer $version" && say "release: v$version is tagged here; nothing was pushed"
else
    say 'release: it can be tagged: make release ARGS=--tag'
fi
