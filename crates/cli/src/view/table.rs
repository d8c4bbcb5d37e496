//! Columns for people, as wide as what stands in them.

/// Which side of its column a text is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    Left,
    Right,
}

/// Rows under a head. Every text is printable already.
#[derive(Debug)]
pub struct Table {
    sides: Vec<Side>,
    rows: Vec<Vec<String>>,
}

impl Table {
    pub fn new<const N: usize>(head: [(&str, Side); N]) -> Table {
        let sides = head.iter().map(|(_, side)| *side).collect();
        Table { sides, rows: vec![head.iter().map(|(name, _)| (*name).to_string()).collect()] }
    }

    pub fn row<const N: usize>(&mut self, row: [String; N]) {
        self.rows.push(row.into());
    }

    /// The lines, the head first, within `width` columns of text: without the columns in `spare`, the first of
    /// them first, as long as there is too much; and how many are left out.
    pub fn lines_within(&self, width: usize, spare: &[usize]) -> (Vec<String>, usize) {
        let mut narrow = (Vec::new(), 0);
        for left_out in 0..=spare.len() {
            let is_in = |at: &usize| !spare[..left_out].contains(at);
            let columns: Vec<usize> = (0..self.sides.len()).filter(is_in).collect();
            let sides = columns.iter().map(|&at| self.sides[at]).collect();
            let row = |row: &Vec<String>| columns.iter().map(|&at| row[at].clone()).collect();
            let table = Table { sides, rows: self.rows.iter().map(row).collect() };
            narrow = (table.lines(), left_out);
            if narrow.0.iter().all(|line| line.chars().count() <= width) {
                break;
            }
        }
        narrow
    }

    /// The lines, the head first.
    pub fn lines(&self) -> Vec<String> {
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<_> = (0..self.sides.len()).map(width).collect();
        let line = |row: &Vec<String>| {
            let cells =
                row.iter().zip(&widths).zip(&self.sides).map(|((cell, width), side)| match side {
                    Side::Left => format!("{cell:<width$}"),
                    Side::Right => format!("{cell:>width$}"),
                });
            cells.collect::<Vec<_>>().join("  ").trim_end().to_string()
        };
        self.rows.iter().map(line).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest() {
        let mut table = Table::new([("a", Side::Left), ("number", Side::Right)]);
        table.row(["long one".into(), "7".into()]);
        assert_eq!(table.lines(), ["a         number", "long one       7"]);
        assert_eq!(table.lines_within(16, &[1]), (table.lines(), 0));
        let narrow = vec!["a".to_string(), "long one".to_string()];
        assert_eq!(table.lines_within(15, &[1]), (narrow, 1));
    }
}
