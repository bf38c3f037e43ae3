//! Checks a page that simflip wrote: a report, or pairs to judge. It knows them by titles that begin with `simflip: `.

use super::super::check::AnyReport;
use super::super::model::{SCHEMA, Tool};
use super::super::review::{self, between};
use super::{render, render_compare, render_decontamination};
use crate::error::{Error, Result};
use crate::inspection::{Inspection, nothing_of_ours};
use std::fs::{self, File};
use std::io::Read;
use std::path::Path;

/// The bytes at the beginning of a page within which its title is.
pub(crate) const TITLE_WITHIN: u64 = 4096;

/// The title of the page at `path`; none if it is not a page of simflip's, or cannot be read.
pub(crate) fn title_of(path: &Path) -> Option<String> {
    let mut head = Vec::new();
    File::open(path).ok()?.take(TITLE_WITHIN).read_to_end(&mut head).ok()?;
    title_in(&head)
}

/// The title in `head`, the first bytes of a page; none if it is not one of simflip's.
pub(crate) fn title_in(head: &[u8]) -> Option<String> {
    let head = String::from_utf8_lossy(head);
    between(&head, "<title>", "</title>").filter(|title| title.starts_with("simflip: ")).map(str::to_owned)
}

/// Checks a page: that it is whole, and that its content is that of the `report.json` beside it, or of its checksum.
///
/// # Errors
/// If the file cannot be read, or is not a page of simflip's.
pub(crate) fn check(path: &Path) -> Result<Inspection> {
    let page = fs::read_to_string(path).map_err(|e| Error::io(path, e))?;
    let title = between(&page, "<title>", "</title>").unwrap_or_default();
    if !title.starts_with("simflip: ") {
        return Err(nothing_of_ours(path, format!("a page of the title {title:?}")));
    }
    let reviews = title == review::TITLE;
    let mut inspection = Inspection::of(if reviews { "page to judge pairs on" } else { "page of a report" });
    if !page.trim_end().ends_with("</html>") {
        inspection.problem(format!("{}: it has no end; the file was cut", path.display()));
    } else if reviews {
        review::check(path, &page, &mut inspection);
    } else {
        check_report_page(path, &page, &mut inspection)?;
    }
    Ok(inspection)
}

/// Checks a report's page by making it again, as it follows from the `report.json` beside it alone.
fn check_report_page(path: &Path, page: &str, inspection: &mut Inspection) -> Result<()> {
    let json = path.with_file_name("report.json");
    if !json.exists() {
        inspection.fact("not known", "whether its figures are right: there is no report.json beside it");
        return Ok(());
    }
    let report = AnyReport::read(&json)?;
    let (tool, schema, made) = match &report {
        AnyReport::Comparison(report) => (&report.tool, report.schema, render_compare(report)?),
        AnyReport::Decontamination(report) => (&report.tool, SCHEMA, render_decontamination(report)?),
        AnyReport::Deduplication(report) => (&report.tool, report.schema, render(report)?),
    };
    if schema < SCHEMA {
        let by =
            "whether its figures are right: an earlier version of simflip made it, and put it in other words";
        inspection.fact("not known", by);
    } else if tool.version != Tool::this().version {
        let by = format!("whether its figures are right: {} {} made it", tool.name, tool.version);
        inspection.fact("not known", by);
    } else if page == made {
        inspection.fact("its figures", "those of report.json");
    } else {
        let wrong = "not the page that report.json makes; one of the two was changed";
        inspection.problem(format!("{}: {wrong}", path.display()));
    }
    Ok(())
}
