"""Mistakes in the files that `tfvn predict` reads: one line each, and exit status 2."""

import numpy as np
import pytest
from predict_command import refused, write_png


class TestMistakes:
    @pytest.mark.parametrize(
        ("text", "words"),
        [
            ("a,b,c\n1,2,3\n", "must have 4 columns, one for each value. Received: "),
            ("1;2;3;4\n", "separated by commas. Received: --input rows.csv with 1"),
            ("1,2,3,4\n1,2,3\n", "Received: 3 in line 2 of --input rows.csv"),
            (
                "a,b,c,d\n1,2,3,4\n\n1,x,3,4\n",
                "Received: 'x' in line 4, column 2 (b), of --input rows.csv",
            ),
            ("1,2,3,4\n1,2,,4\n", "an empty cell in line 2, column 3, of --input"),
            ("a,2,3,4\n1,2,3,4\n", "Received: 'a' in line 1, column 1, of --input"),
            ("1_0,2,3,4\n", "Received: '1_0' in line 1, column 1, of --input"),
            ("1,2,3,4\n1,nan,3,4\n", "Received: nan in line 2 of --input rows.csv"),
            ("a,b,c,d\n", "at least one line of values. Received: --input rows.csv"),
            ("", "at least one line of values. Received: --input rows.csv"),
            ("\xff\x00", "must be text in UTF-8"),
        ],
    )
    def test_csv(self, export, folder, capsys, text, words):
        (folder / "rows.csv").write_text(text, "latin-1")
        assert words in refused(capsys, export, "--input", "rows.csv")

    def test_csv_of_several_inputs(self, people, folder, capsys):
        for text, words in (
            (
                "Eve,3\n",
                "must have the names of the inputs: age, name. Received: Eve, 3",
            ),
            ("name,age\nEve,three\n", "Received: 'three' in line 2, column 2 (age)"),
        ):
            (folder / "rows.csv").write_text(text)
            assert words in refused(capsys, people, "--input", "rows.csv")

    @pytest.mark.parametrize(
        ("arrays", "options", "words"),
        [
            (
                {"x": np.zeros((2, 4)), "y": np.zeros(2)},
                [],
                "['inputs'], or choose one of its arrays with `--key`. Received: arrays "
                "named ['x', 'y'] in --input rows.npz",
            ),
            (
                {"x": np.zeros((2, 4)), "y": np.zeros(2)},
                ["--key", "z"],
                "`--key` must be an array of the file: x, y. Received: --key z with",
            ),
            (
                {"x": np.zeros((2, 3))},
                [],
                "must have the shape (4,). Received: rows of shape (3,) in --input rows",
            ),
            (
                {"x": [[0.0, 0, 0, 0], [0, 0, np.inf, 0]]},
                [],
                "must be finite. Received: inf in row 1 of --input rows.npz",
            ),
            ({"x": np.zeros((2, 4))}, ["--pixels", "0..1"], "`--pixels` is for images"),
        ],
    )
    def test_npz(self, export, folder, capsys, arrays, options, words):
        np.savez("rows.npz", **arrays)
        assert words in refused(capsys, export, "--input", "rows.npz", *options)

    def test_numbers_of_rows(self, people, folder, capsys):
        np.savez("rows.npz", name=np.array([["Eve"]]), age=np.zeros(2))
        error = refused(capsys, people, "--input", "rows.npz")
        assert "same number of rows. Received: " in error
        assert "2 for `age`" in error
        error = refused(capsys, people, "--input", "rows.npz", "--key", "age")
        assert "`--key` must be left out for a signature with the inputs" in error

    def test_images(self, images, export, folder, capsys):
        (folder / "scans").mkdir()
        options = ["--input", "scans", "--pixels", "0..1"]
        error = refused(capsys, images, *options)
        assert "Received: --input scans, which has none" in error
        write_png(folder / "scans" / "a.png", np.zeros((2, 2, 1), "uint8"))
        assert "without `--pixels`" in refused(capsys, images, "--input", "scans")
        assert "--key names" not in refused(capsys, images, *options, "--key", "x")
        assert "Received: --input scans for an input of shape (4,)" in refused(
            capsys, export, *options
        )
        second = folder / "scans" / "b.png"
        write_png(second, np.zeros((3, 2, 1), "uint8"))
        error = refused(capsys, images, *options)
        assert (
            "(2, 2, 1); resize or convert it. Received: scans/b.png of shape" in error
        )
        assert "(3, 2, 1)" in error
        colours = np.arange(12, dtype="uint8").reshape(2, 2, 3)
        write_png(second, colours)
        assert "Received: scans/b.png of shape (2, 2, 3)" in refused(
            capsys, images, *options
        )
        write_png(second, np.zeros((2, 2, 1), "uint16"))
        assert "scans/b.png with 16 bits" in refused(capsys, images, *options)
        second.write_text("not an image")
        assert "a PNG or JPEG file. Received: scans/b.png: " in refused(
            capsys, images, *options
        )
