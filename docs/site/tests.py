"""Tests of the staging of the site: `python3 -m unittest docs/site/tests.py`."""

import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from pages import file_page, link_targets, rewrite  # noqa: E402


class Links(unittest.TestCase):
    def rewritten(self, text):
        pages = {"../examples/a.yaml": Path("files/examples/a.yaml.md"), "b.md": Path("guide/b.md")}
        return rewrite(text, Path("guide/x.md"), pages.get)

    def test_links_lead_to_pages(self):
        self.assertEqual(self.rewritten("[a](../examples/a.yaml)"), "[a](../files/examples/a.yaml.md)")
        self.assertEqual(self.rewritten("[b](b.md#part)"), "[b](b.md#part)")
        self.assertEqual(self.rewritten("[`b`](b.md)"), "[`b`](b.md)")

    def test_other_links_and_code_stay(self):
        for text in ("[x](https://example.com/b.md)", "[x](#part)", "`[b](b.md2)`", "```\n[a](../examples/a.yaml)\n```"):
            self.assertEqual(self.rewritten(text), text)

    def test_targets(self):
        self.assertEqual(link_targets("[a](b.md), [c](d.md#e)"), ["b.md", "d.md#e"])


class Files(unittest.TestCase):
    def test_a_fence_is_longer_than_any_in_the_file(self):
        page = file_page(Path("a.txt"), "```\nx\n```\n")
        self.assertIn("````text\n```\nx\n```\n````", page)


if __name__ == "__main__":
    unittest.main()
