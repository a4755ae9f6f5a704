//! A page's rows as a Parquet file: one row group, the columns of [`super::data`], `value` a double that may be absent.
//!
//! Feature `parquet`, which no build has by default: it takes the crate of that name.

use super::html::Report;
use std::io;
use std::path::Path;

#[cfg(not(feature = "parquet"))]
pub fn write(_: &Report, _: &Path) -> io::Result<()> {
    let why = "this build writes no Parquet: build with --features parquet, or name a file that ends in .csv";
    Err(io::Error::new(io::ErrorKind::Unsupported, why))
}

#[cfg(feature = "parquet")]
pub fn write(report: &Report, path: &Path) -> io::Result<()> {
    let mut bytes = Vec::new();
    whole::write(&super::data::rows(report), &mut bytes).map_err(io::Error::other)?;
    std::fs::write(path, bytes)
}

#[cfg(feature = "parquet")]
mod whole {
    use crate::report::data::Row;
    use parquet::data_type::{ByteArray, ByteArrayType, DoubleType};
    use parquet::errors::ParquetError;
    use parquet::file::properties::WriterProperties;
    use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
    use parquet::schema::parser::parse_message_type;
    use std::io::Write;
    use std::sync::Arc;

    const SCHEMA: &str = "message rows {
        required binary part (UTF8);
        required binary kind (UTF8);
        required binary name (UTF8);
        required binary row (UTF8);
        required binary column (UTF8);
        optional double value;
        required binary unit (UTF8);
        required binary text (UTF8);
    }";

    pub fn write(rows: &[Row], out: &mut (impl Write + Send)) -> Result<(), ParquetError> {
        let schema = Arc::new(parse_message_type(SCHEMA)?);
        let properties = Arc::new(WriterProperties::builder().build());
        let mut file = SerializedFileWriter::new(out, schema, properties)?;
        let mut group = file.next_row_group()?;
        let before: [fn(&Row) -> &str; 5] =
            [|row| &row.part, |row| row.kind, |row| &row.name, |row| &row.row, |row| &row.column];
        for read in before {
            texts(&mut group, rows, read)?;
        }
        let values: Vec<f64> = rows.iter().filter_map(|row| row.value).collect();
        let is_there: Vec<i16> = rows.iter().map(|row| i16::from(row.value.is_some())).collect();
        let mut column = group.next_column()?.expect("the schema has it");
        column.typed::<DoubleType>().write_batch(&values, Some(&is_there), None)?;
        column.close()?;
        let behind: [fn(&Row) -> &str; 2] = [|row| row.unit, |row| &row.text];
        for read in behind {
            texts(&mut group, rows, read)?;
        }
        group.close()?;
        file.close()?;
        Ok(())
    }

    fn texts<W: Write + Send>(
        group: &mut SerializedRowGroupWriter<'_, W>,
        rows: &[Row],
        read: fn(&Row) -> &str,
    ) -> Result<(), ParquetError> {
        let values: Vec<ByteArray> = rows.iter().map(|row| ByteArray::from(read(row))).collect();
        let mut column = group.next_column()?.expect("the schema has it");
        column.typed::<ByteArrayType>().write_batch(&values, None, None)?;
        column.close()?;
        Ok(())
    }

    #[cfg(test)]
    mod tests {
        use super::*;
        use parquet::file::reader::{FileReader, SerializedFileReader};
        use parquet::record::Field;

        #[test]
        fn what_is_written_is_read_back() {
            let row = |name: &str, value| Row {
                part: "p".to_owned(),
                kind: "table",
                name: name.to_owned(),
                row: "get".to_owned(),
                column: "p50".to_owned(),
                value,
                unit: "s",
                text: "1.00 ms".to_owned(),
            };
            let mut bytes = Vec::new();
            write(&[row("1", Some(0.001)), row("2", None)], &mut bytes).expect("memory");
            let reader = SerializedFileReader::new(bytes::Bytes::from(bytes)).expect("a file");
            let read: Vec<_> =
                reader.get_row_iter(None).expect("rows").map(|row| row.expect("a row")).collect();
            let field = |at: usize, name: &str| {
                let field = read[at].get_column_iter().find(|(column, _)| *column == name);
                field.expect("a column").1.clone()
            };
            assert_eq!(
                (read.len(), field(0, "value"), field(1, "value")),
                (2, Field::Double(0.001), Field::Null)
            );
            assert_eq!(
                (field(1, "name"), field(0, "unit")),
                (Field::Str("2".to_owned()), Field::Str("s".to_owned()))
            );
        }
    }
}
