"""The examples of docs/python.md run."""

import os
import re
import subprocess
import sys
import unittest

from case import Case

PAGE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../docs/python.md")


class Page(Case):
    def test_examples_run(self):
        """Runs each section of the page as a program of its own, in an empty directory."""
        with open(PAGE) as file:
            sections = file.read().split("\n## ")
        ran = 0
        for section in sections:
            blocks = re.findall(r"^```python\n(.*?)^```", section, re.DOTALL | re.MULTILINE)
            if not blocks:
                continue
            title = section.splitlines()[0]
            work = self.path(str(ran))
            os.mkdir(work)
            program = os.path.join(work, "program.py")
            with open(program, "w") as file:
                file.write("\n".join(blocks))
            with self.subTest(section=title):
                done = subprocess.run([sys.executable, program], cwd=work, capture_output=True, text=True)
                self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
            ran += 1
        self.assertGreater(ran, 6)


if __name__ == "__main__":
    unittest.main()
