//! What README.md shows of a program is what the program says: an excerpt that drifts is worse than none.

use std::path::Path;

fn read(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The fenced blocks of a language in a section.
fn blocks(text: &str, section: &str, language: &str) -> Vec<String> {
    let (_, from) = text.split_once(&format!("\n## {section}\n")).expect("the section");
    let section = from.split("\n## ").next().expect("its end");
    let fence = format!("\n```{language}\n");
    section.split(&fence).skip(1).map(|from| from.split("\n```").next().expect("its end").to_owned()).collect()
}

/// Lines without what they are indented by: an excerpt begins at the left.
fn lines(text: &str) -> Vec<&str> {
    text.lines().map(str::trim).filter(|line| !line.is_empty()).collect()
}

fn holds(whole: &str, part: &str) -> bool {
    let (whole, part) = (lines(whole), lines(part));
    !part.is_empty() && whole.windows(part.len()).any(|window| window == part)
}

const SECTION: &str = "A failing call, first";

#[test]
fn the_excerpts_are_lines_of_the_example() {
    let (readme, example) = (read("README.md"), read("examples/repair.c"));
    let shown = blocks(&readme, SECTION, "c");
    assert_eq!(shown.len(), 4);
    for block in shown {
        assert!(holds(&example, &block), "not in examples/repair.c:\n{block}");
    }
}

#[test]
fn the_report_is_what_the_example_prints() {
    let (readme, printed) = (read("README.md"), read("examples/repair.txt"));
    let shown = blocks(&readme, SECTION, "text");
    assert_eq!(shown.len(), 1);
    assert!(holds(&printed, &shown[0]), "not in examples/repair.txt:\n{}", shown[0]);
}

#[test]
fn every_page_is_found_from_the_readme() {
    let readme = read("README.md");
    let pages = std::fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs")).expect("docs");
    let mut count = 0;
    for page in pages {
        let name = page.expect("a page").file_name().into_string().expect("UTF-8");
        assert!(readme.contains(&format!("(docs/{name})")), "README.md does not link docs/{name}");
        count += 1;
    }
    assert!(count > 5);
}
