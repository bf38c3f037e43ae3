"""Tests of the scripts here: python3 -m unittest tests (in this folder)."""

import csv
import itertools
import os
import pathlib
import random
import re
import shutil
import sys
import tempfile
import unittest
import unittest.mock

import corpus
import draw
import heldout
import read
import score
import truth

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import tables


class Words(unittest.TestCase):
    def test_words_are_runs_of_letters_and_digits(self):
        self.assertEqual(
            corpus.words("Don't: foo_bar 2.5 Größe"), ["don", "t", "foo", "bar", "2", "5", "größe"]
        )

    def test_every_han_or_kana_character_is_a_word(self):
        self.assertEqual(corpus.words("ab漢字かナcd"), ["ab", "漢", "字", "か", "ナ", "cd"])

    def test_pieces_are_words_with_what_follows_them(self):
        self.assertEqual(corpus.pieces(">> Don't,  > stop\n日本."), ["Don'", "t, >", "stop", "日", "本."])

    def test_a_short_text_is_one_shingle(self):
        self.assertEqual(corpus.shingles("one two three", 5), {("one", "two", "three")})
        self.assertEqual(corpus.shingles(" - ", 5), set())
        self.assertEqual(len(corpus.shingles("a b c d e f", 5)), 2)


class Join(unittest.TestCase):
    def test_the_join_finds_what_comparing_all_pairs_finds(self):
        random_ = random.Random(5)
        for least in (0.3, 0.5, 0.8):
            for _ in range(30):
                sets = []
                for _ in range(40):
                    if sets and random_.random() < 0.6:
                        near = set(random_.choice(sets))
                        near ^= set(random_.sample(range(60), random_.randrange(5)))
                        sets.append(near)
                    else:
                        sets.append(set(random_.sample(range(60), random_.randrange(12))))
                naive = {
                    (a, b): corpus.jaccard(sets[a], sets[b])
                    for a, b in itertools.combinations(range(len(sets)), 2)
                    if sets[a] and sets[b] and corpus.jaccard(sets[a], sets[b]) >= least
                }
                joined = list(truth.join(sets, least))
                self.assertEqual(len(joined), len(naive))
                self.assertEqual({(a, b): coefficient for a, b, coefficient in joined}, naive)


class BCubed(unittest.TestCase):
    def test_clusters_are_judged_document_by_document(self):
        # Found {0, 1, 2}, {5, 6}; true {0, 1}, {2, 3}, {5, 6}.
        scores = score.bcubed([(0, 1), (1, 2), (5, 6)], [(0, 1), (2, 3), (5, 6)])
        third = 1 / 3
        expected = {0: (2 * third, 1), 1: (2 * third, 1), 2: (third, 0.5), 3: (1, 0.5), 5: (1, 1), 6: (1, 1)}
        self.assertEqual({key: tuple(map(float, value)) for key, value in scores.items()}, expected)
        family = dict.fromkeys(range(7), "one")
        precision, recall = (5 * third + 3) / 6, 5 / 6
        f1 = score.bcubed_interval(scores, family, 20, 1)[0]
        self.assertAlmostEqual(f1, 2 * precision * recall / (precision + recall))
        self.assertEqual(score.harmonic(0, 0, 0), 0.0)


class Rates(unittest.TestCase):
    def test_rates(self):
        self.assertEqual(score.rates(6, 2, 4), (0.75, 0.6, 2 / 3))
        self.assertEqual(score.rates(0, 0, 0), (0.0, 0.0, 0.0))

    def test_auc_is_the_share_of_ordered_pairs(self):
        random_ = random.Random(3)
        for _ in range(50):
            pairs = [(random_.randrange(6), random_.random() < 0.4) for _ in range(30)] + [
                (1, True),
                (1, False),
            ]
            positives = [value for value, label in pairs if label]
            negatives = [value for value, label in pairs if not label]
            ordered = sum((p > n) + (p == n) / 2 for p in positives for n in negatives)
            self.assertAlmostEqual(score.auc(pairs), ordered / len(positives) / len(negatives))
        self.assertIsNone(score.auc([(1, True)]))


class Readers(unittest.TestCase):
    def test_kappa_is_agreement_beyond_chance(self):
        equal, kappa = read.agreement(
            ["yes"] * 20 + ["no"] * 20, ["yes"] * 15 + ["no"] * 5 + ["yes"] * 5 + ["no"] * 15
        )
        self.assertEqual((equal, kappa), (0.75, 0.5))

    def test_answers_must_be_whole_and_in_the_words_of_the_protocol(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "one.csv")

            def written(*rows):
                with open(path, "w", newline="") as file:
                    csv.writer(file).writerows([("pair", "label", "removable", "confidence"), *rows])
                return read.answers(path, {"001", "002"})

            good = written(("1", "same", "yes", 3), ("002", "frame", "no", 2))
            self.assertEqual(good, {"001": ("same", "yes"), "002": ("frame", "no")})
            for bad in [("001", "same", "maybe", 3), ("003", "same", "yes", 3), ("001", "alike", "yes", 3)]:
                with self.assertRaises(SystemExit):
                    written(bad, ("002", "frame", "no", 2))
            with self.assertRaises(SystemExit):
                written(("001", "same", "yes", 3))

    def test_a_pair_stands_for_what_its_band_holds(self):
        rows = [
            {
                "pair": f"{n}",
                "corpus": "c",
                "a_host": f"h{n}",
                "b_host": f"h{n}",
                "stratum": at,
                "stratum_pairs": size,
            }
            for n, (at, size) in enumerate([("low", "90"), ("low", "90"), ("high", "10")])
        ]
        share = read.weighted(rows, {"0": True, "1": False, "2": True})
        self.assertEqual(share[0], 0.55)
        self.assertLess(share[1], share[0])

    def test_a_run_is_scored_over_all_its_corpora(self):
        ends = [("a", "x", "y"), ("a", "p", "q"), ("b", "x", "y"), ("b", "u", "v")]
        rows = [
            {"pair": f"{n}", "corpus": name, "a_id": a, "b_id": b, "a_host": a, "b_host": b}
            for n, (name, a, b) in enumerate(ends)
        ]
        runs = {"a": {frozenset("xy"), frozenset("pq")}, "b": {frozenset("zz")}}
        found = read.run_rates(rows, {"0": True, "1": False, "2": True, "3": False}, runs)
        self.assertEqual((found["hits"], found["wrong"], found["missed"]), (1, 1, 1))
        self.assertEqual(found["f1"][0], 0.5)


class Drawing(unittest.TestCase):
    def test_bands_hold_their_upper_edge(self):
        found = [draw.band_of(value) for value in (0.01, 0.02, 0.2, 0.21, 0.5, 0.9, 0.91, 1.0)]
        self.assertEqual(found, [None, 0, 0, 1, 2, 5, 6, 6])

    def test_minima_estimate_the_coefficient(self):
        one, other = {f"w{n}" for n in range(3000)}, {f"w{n}" for n in range(1000, 4000)}
        self.assertAlmostEqual(draw.likeness(draw.minima(one), draw.minima(other)), 0.5, delta=0.12)

    def test_a_sheet_shows_what_differs(self):
        line = " ".join(f"word{n}" for n in range(80))
        sheet = draw.sheet(f"same\n{line}\nmine", f"same\n{line.replace('word70', 'changed')}\nyours")
        only_a, only_b = sheet.split("===== LINES ONLY IN A")[1].split("===== LINES ONLY IN B")
        self.assertIn("word70", only_a)
        self.assertIn("changed", only_b)
        self.assertNotIn("word20", only_a)
        self.assertIn("mine", only_a)
        self.assertNotIn("same", only_a)

    def test_a_long_text_loses_its_middle(self):
        text = "".join(f"{n:05} " for n in range(2000))
        shown = draw.shortened(text)
        self.assertLessEqual(len(shown), draw.TEXT)
        self.assertTrue(shown.startswith("00000") and shown.endswith("01999 "))


class Sources(unittest.TestCase):
    def test_roff_leaves_its_words(self):
        source = (
            '.TH LS 1\n.\\" a comment\n.de X\nhidden\n..\n.SH "SEE ALSO"\n\\fBls\\fP\\-l\n.sp 2\n.BR cat (1)'
        )
        self.assertEqual(heldout.unroffed(source), "LS 1\nSEE ALSO\nls-l\ncat (1)")

    def test_sections_begin_at_titles(self):
        found = list(heldout.parts("One\n===\ntext of one\n\nTwo\n---\ntext of two\n"))
        self.assertEqual(found, [("One", "One\ntext of one"), ("Two", "Two\ntext of two")])

    def test_a_family_has_so_many_and_no_text_twice(self):
        rows = [(str(n), "", f"text {n // 2}", {"family": "f"}) for n in range(20)]
        self.assertEqual(len({row[2] for row in heldout.thinned(rows, 100, 4)}), 4)
        self.assertEqual(len(heldout.thinned(rows, 100, 50)), 10)
        self.assertEqual(heldout.thinned(rows, 5, 50), [])


class Clusters(unittest.TestCase):
    def test_all_pairs_within_a_cluster_count(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "clusters.csv")
            with open(path, "w", encoding="utf-8") as file:
                file.write("record,cluster\n4,1\n2,1\n7,3\n5,1\n")
            self.assertEqual(set(score.found_pairs(path, [])), {(2, 4), (2, 5), (4, 5)})


class Tables(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        for file in {*tables.TABLES, *(file for file, _ in tables.sentences())}:
            (self.root / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(tables.HERE.parent / file, self.root / file)

    def drift(self, file, before):
        """Changes the last digit of the number behind these words, and tells the number that stands there then."""
        text = (self.root / file).read_text(encoding="utf-8")
        self.assertEqual(text.count(before), 1)
        end = re.compile(r"[.\d]+").match(text, text.index(before) + len(before)).end()
        last = (int(text[end - 1]) + 1) % 10
        text = f"{text[: end - 1]}{last}{text[end:]}"
        (self.root / file).write_text(text, encoding="utf-8")
        return text[text.index(before) + len(before) : end]

    def test_all_kernels_have_the_faster_level_of_one_machine(self):
        def made(machine, speed):
            return {"machine": machine, "queries_per_cpu_second": str(speed)}

        files = {"one.csv": [made("A", 2)], "avx2/one.csv": [made("A", 3)], "two.csv": [made("A", 2)], "avx2/two.csv": [made("B", 3)]}
        with unittest.mock.patch.object(tables, "rows", files.get):
            self.assertEqual([max(map(tables.rate, of)) for of in tables.by_level("one")], [3, 3])
            self.assertEqual([max(map(tables.rate, of)) for of in tables.by_level("two")], [2, 3])
        self.assertEqual(tables.over(made("A", 3), made("A", 2)), 1.5)
        self.assertRaises(AssertionError, tables.over, made("A", 3), made("B", 2))

    def test_what_is_reported_is_what_the_rows_say(self):
        self.assertEqual([*tables.commands(), *tables.differences(self.root)], [])

    def test_a_number_of_a_table_that_drifts_is_found_and_written_anew(self):
        number = self.drift("README.md", "| **simflip** | 1.0 | ")
        [found] = tables.differences(self.root)
        self.assertIn("README.md, table tools", found)
        self.assertIn(number, found)
        self.assertEqual(list(tables.differences(self.root, write=True)), [])
        self.assertEqual((self.root / "README.md").read_bytes(), (tables.HERE.parent / "README.md").read_bytes())

    def test_a_row_too_few_is_found(self):
        text = (self.root / "docs/plan.md").read_text(encoding="utf-8")
        rest = [line for line in text.splitlines() if not line.startswith("| real, 1,343,852 | 10 ")]
        (self.root / "docs/plan.md").write_text("\n".join(rest), encoding="utf-8")
        [found] = tables.differences(self.root)
        self.assertIn("document None", found)

    def test_a_number_of_a_sentence_that_drifts_is_found(self):
        self.drift("README.md", "Of 91 pairs of which readers would remove\n  one document, the default finds ")
        [found] = tables.differences(self.root)
        self.assertIn("README.md does not say", found)


if __name__ == "__main__":
    unittest.main()
