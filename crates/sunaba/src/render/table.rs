//! Columns of text.

/// Rows under a head, columns as wide as their widest cell; the last one is left ragged.
pub(crate) fn table(head: &[&str], rows: &[Vec<String>]) -> String {
    let columns = head.len();
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count());
        cells.chain([head[column].chars().count()]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let line = |cells: &mut dyn Iterator<Item = &str>| {
        let padded: Vec<String> =
            cells.enumerate().map(|(column, cell)| format!("{cell:0$}", widths[column])).collect();
        format!("{}\n", padded.join("  ").trim_end())
    };
    let mut text = line(&mut head.iter().copied());
    for row in rows {
        text.push_str(&line(&mut row.iter().take(columns).map(String::as_str)));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let rows = vec![vec!["a".into(), "long cell".into()], vec!["wide one".into(), "b".into()]];
        assert_eq!(table(&["ID", "WHAT"], &rows), "ID        WHAT\na         long cell\nwide one  b\n");
    }
}
