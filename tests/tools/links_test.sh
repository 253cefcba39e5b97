#!/usr/bin/env bash
# Links of the pages: their files and #anchors exist, and docs/README.md leads to every page and answers 30 questions.
# Planted mistakes show that each of the three is seen.
set -euo pipefail
root=$(readlink -f "$(dirname "$0")/../..")
desk=$(mktemp -d)
trap 'rm -rf "$desk"' EXIT

# broken ROOT: prints each link without a target. Anchors are those that GitHub makes of headings; the second heading of
# a name ends in -1.
broken() {
  find "$1" \( -name .git -o -name build -o -name runs -o -name .cache \) -prune -o -name '*.md' -print | sort | perl -e '
    my ($root) = @ARGV;
    my (%anchors, @links);
    sub read_page {
      my ($page) = @_;
      my (%count, $code);
      $anchors{$page} = {};
      open my $in, "<:utf8", $page or die "$page: $!\n";
      while (<$in>) {
        if (/^ *```/) { $code = !$code; next }
        next if $code;
        push @links, [$page, $1] while /\]\(([^) ]+)\)/g;
        next unless /^#+ +(.*?) *$/;
        (my $name = lc $1) =~ s/\]\([^)]*\)//g;
        $name =~ s/[^\w -]//g;
        $name =~ s/ /-/g;
        $anchors{$page}{$name . ($count{$name} ? "-$count{$name}" : "")} = 1;
        ++$count{$name};
      }
    }
    chomp(my @pages = <STDIN>);
    s{^\Q$root\E/}{} for @pages;
    chdir $root or die "$root: $!\n";
    read_page($_) for @pages;
    for (@links) {
      my ($page, $link) = @$_;
      next if $link =~ m{://};
      my ($file, $anchor) = $link =~ /^([^#]*)(?:#(.*))?$/;
      my $target = $file eq "" ? $page : ($page =~ m{^(.*/)} ? $1 : "") . $file;
      1 while $target =~ s{(^|/)(?!\.\./)[^/]+/\.\./}{$1};
      if (!-e $target) { print "$page: link to $link: no such file\n" }
      elsif (defined $anchor && !$anchors{$target}{$anchor}) { print "$page: link to $link: no such heading\n" }
    }' "$1"
}

# index ROOT: prints each page that docs/README.md does not link to, and says if it has too few questions with a link.
index() {
  local page questions
  for page in "$1"/docs/*.md; do
    page=$(basename "$page")
    [ "$page" = README.md ] || grep -qF "($page" "$1/docs/README.md" || echo "docs/README.md: no link to $page"
  done
  questions=$(awk '/^- / { if (item ~ /\?.*\]\(/) ++count; item = "" } /^(- |  )/ { item = item " " $0 } /^$/ { if (item ~ /\?.*\]\(/) ++count; item = "" }
    END { if (item ~ /\?.*\]\(/) ++count; print count + 0 }' "$1/docs/README.md")
  [ "$questions" -ge 30 ] || echo "docs/README.md: $questions questions with a link, needs 30"
}

# sees PATTERN COMMAND: the command prints a line that matches on the planted pages.
sees() {
  grep -qE -- "$1" <<<"$("$2" "$desk")" || { echo "a planted mistake is not seen: $1"; exit 1; }
}

mkdir -p "$desk/docs"
printf '%s\n' '# Page' "## What \`a_b\` does, twice" '## Again' '## Again' '```' '# no heading' '[no](link.md)' '```' '[up](../docs/page.md#page)' >"$desk/docs/page.md"
printf '%s\n' '- Where? [Here](page.md#what-a_b-does-twice), [there](page.md#again-1), [self](#more), [web](https://example.org/x.md).' \
  '# More' >"$desk/docs/README.md"
[ -z "$(broken "$desk")" ] || { echo "good links are refused:"; broken "$desk"; exit 1; }
sees '1 questions' index
printf '%s\n' '# Other' '[a](gone.md) [b](page.md#no-heading) [c](#nothing)' >"$desk/docs/other.md"
sees 'docs/other.md: link to gone.md: no such file' broken
sees 'docs/other.md: link to page.md#no-heading: no such heading' broken
sees 'docs/other.md: link to #nothing: no such heading' broken
sees 'no link to other.md' index

found=$(broken "$root"; index "$root")
[ -z "$found" ] || { echo "$found"; exit 1; }
echo "every link leads somewhere"
