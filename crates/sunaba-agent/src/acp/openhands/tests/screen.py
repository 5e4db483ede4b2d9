"""What a terminal shows, taken apart."""

import unittest

from sunaba_openhands.screen import PROMPT, READY, RUNS, Screen

PS1 = f"{PROMPT}\n###PS1JSON###\n{{}}\n###PS1END###\n{READY}"
SHOWN = "\n###PS1JSON###\n{}\n###PS1END###\n"


class Shown(unittest.TestCase):
    def setUp(self):
        self.shown, self.told = "", ""
        self.screen = Screen(self.put, self.tell)

    def put(self, text):
        self.shown += text

    def tell(self, text):
        self.told += text

    def take(self, text):
        """As it may come: a character at a time is the worst."""
        for character in text:
            self.screen.take(character)

    def test_the_echo_is_plain_and_only_output_is_told(self):
        self.take(PS1)
        self.screen.expect("echo hi")
        self.take(f"echo \x1b[K\n hi\n{RUNS}hi\n{PS1}")
        self.assertEqual(self.told, "hi\n")
        self.assertEqual(self.shown, f"{SHOWN}echo hi\nhi\n{SHOWN}")

    def test_what_never_ran_is_shown_as_the_shell_said_it(self):
        self.take(PS1)
        self.screen.expect("if then")
        self.take(f"if then\nsyntax error\n{PS1}")
        self.assertEqual((self.told, self.shown), ("", f"{SHOWN}if then\nsyntax error\n{SHOWN}"))

    def test_what_comes_at_the_prompt_is_shown_and_not_told(self):
        self.take(f"{PS1}a job is done\n")
        self.assertEqual((self.told, self.shown), ("", f"{SHOWN}a job is done\n"))

    def test_a_second_command_of_the_same_lines_has_no_echo(self):
        self.take(PS1)
        self.screen.expect("cat <<E\nx\nE")
        self.take(f"cat <<E\nx\nE\n{RUNS}x\n{PS1}next\n{RUNS}y\n{PS1}")
        self.assertEqual(self.told, "x\ny\n")


unittest.main()
