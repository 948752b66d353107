//! Elements of HTML: escaped text, tables, legends and figures.

use super::chart::{Chart, Table};
use super::svg;
use std::fmt::Write;

/// Text for the inside of an element or an attribute in quotes. Control characters, which HTML forbids, become the replacement character.
pub fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            '\n' | '\t' => escaped.push(letter),
            control if control.is_control() => escaped.push('\u{fffd}'),
            other => escaped.push(other),
        }
    }
    escaped
}

/// A table that scrolls sideways by itself on a narrow screen. `caption` names its content.
pub fn table(caption: &str, table: &Table) -> String {
    let mut html = format!(
        "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"{0}\"><table>\n<caption>{0}</caption>\n<thead><tr>",
        escaped(caption)
    );
    for cell in &table.head {
        let _ = write!(html, "<th scope=\"col\">{}</th>", escaped(cell));
    }
    html.push_str("</tr></thead>\n<tbody>\n");
    for row in &table.rows {
        html.push_str("<tr>");
        for (column, cell) in row.iter().enumerate() {
            let text = cell_text(cell);
            let _ = match column {
                0 => write!(html, "<th scope=\"row\">{text}</th>"),
                _ => write!(html, "<td>{text}</td>"),
            };
        }
        html.push_str("</tr>\n");
    }
    html.push_str("</tbody>\n</table></div>\n");
    html
}

/// A cell as HTML: lines after the first are set smaller, and a verdict is a coloured word.
fn cell_text(cell: &str) -> String {
    let class = match cell {
        "FAIL" => "fail",
        _ if cell.starts_with("PASS") => "pass",
        _ => "",
    };
    if !class.is_empty() {
        return format!("<strong class=\"{class}\">{}</strong>", escaped(cell));
    }
    let mut lines = cell.split('\n');
    let first = escaped(lines.next().unwrap_or_default());
    first + &lines.map(|line| format!("<small>{}</small>", escaped(line))).collect::<String>()
}

/// The legend of a chart: each name with the look of its series.
pub fn legend<'a>(names: impl Iterator<Item = &'a str>, is_line: bool) -> String {
    let mut html = "<ul class=\"legend\">\n".to_owned();
    for (series, name) in names.enumerate() {
        let _ = writeln!(html, "<li>{} {}</li>", svg::key(series, is_line), escaped(name));
    }
    html.push_str("</ul>\n");
    html
}

/// A chart below its title, with its numbers in a closed `details` element.
pub fn figure(chart: &Chart) -> String {
    let title = escaped(&chart.title);
    let note =
        if chart.note.is_empty() { String::new() } else { format!("<p>{}</p>\n", escaped(&chart.note)) };
    format!(
        "<figure>\n<figcaption>{title}</figcaption>\n{}{note}<details><summary>The numbers of {title}</summary>\n{}</details>\n\
         </figure>\n",
        chart.svg,
        table(&chart.title, &chart.table)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_escapes_from_its_element() {
        assert_eq!(
            escaped("<a href='x'>\"&\u{1}</a>"),
            "&lt;a href=&#39;x&#39;&gt;&quot;&amp;\u{fffd}&lt;/a&gt;"
        );
        let odd =
            Table { head: vec!["<h>".to_owned()], rows: vec![vec!["&".to_owned(), "1\n<2>".to_owned()]] };
        let html = table("\"c\"", &odd);
        assert!(html.contains("aria-label=\"&quot;c&quot;\"") && html.contains(">&lt;h&gt;<"), "{html}");
        assert!(html.contains(">&amp;<") && html.contains("1<small>&lt;2&gt;</small>"), "{html}");
    }
}
