"""OpenHands' terminal with a shell that is known to be ready, whose commands can be watched, and that can be ended.

Its own takes the shell for ready after a second. On a busy machine the first prompts come later than that, and one of
them is then taken for the end of the first command.
"""

import codecs
import fcntl
import os
import pty
import select
import shutil
import signal
import struct
import subprocess
import termios
import threading

from openhands.tools.terminal.constants import CMD_OUTPUT_PS1_BEGIN, CMD_OUTPUT_PS1_END
from openhands.tools.terminal.terminal.subprocess_terminal import SubprocessTerminal

from .screen import PROMPT, READY, RUNS, Screen

READY_SECONDS = 60
READ_SECONDS = 0.1
READ_BYTES = 65536
# Programs that fold their lines are to fold them late.
ROWS, COLUMNS = 200, 256


class ShellEnded(Exception):
    """There is no shell any more; its exit code and what the last command wrote."""

    def __init__(self, code, output):
        super().__init__(f"the shell ended with exit code {code}")
        self.code = code
        self.output = output


class Shell(SubprocessTerminal):
    """One shell; when it has ended there has to be another one."""

    def __init__(self, work_dir, own_dir, env, tell):
        super().__init__(work_dir)
        self._own_dir = own_dir
        self._commands_env = env
        self._screen = Screen(self._add_text_to_buffer, tell)
        self._told_all = threading.Event()

    def initialize(self):
        master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        env = {"GIT_PAGER": "cat", "PAGER": "cat", **self._commands_env, "TERM": "xterm-256color"}
        shell = shutil.which("bash", path=env.get("PATH")) or "/bin/bash"
        try:
            self.process = subprocess.Popen(
                [shell, "--rcfile", self._write_rc(), "-i"],
                stdin=slave, stdout=slave, stderr=slave,
                cwd=self.work_dir, env=env, start_new_session=True,
                preexec_fn=take_terminal,
            )
        finally:
            os.close(slave)
        os.set_blocking(master, False)
        self._pty_master_fd = master
        self._initialized = True
        self.reader_thread = threading.Thread(target=self._read, daemon=True)
        self.reader_thread.start()
        self.until_ready()

    def _write_rc(self):
        """What the shell reads first. Without job control a command is of the shell's own group, and ends with it."""
        path = os.path.join(self._own_dir, "bashrc")
        with open(path, "w", encoding="utf-8") as rc:
            rc.write("[ -f ~/.bashrc ] && . ~/.bashrc\n")
            rc.write("set +H; PS2=; bind 'set enable-bracketed-paste off'\n")
            rc.write(f"PS0='{RUNS}'\n")
            # Job control is only set up after this file.
            rc.write(f"PROMPT_COMMAND='PS1=\"{PROMPT}{self.PS1}{READY}\"; set +m'\n")
        return path

    def _read(self):
        """Reads until nothing can come any more: also what a shell wrote just before it ended."""
        decode = codecs.getincrementaldecoder("utf-8")(errors="replace").decode
        fd = self._pty_master_fd
        while True:
            try:
                if not select.select([fd], [], [], READ_SECONDS)[0]:
                    if self.process.poll() is not None:
                        break
                    continue
                piece = os.read(fd, READ_BYTES)
            except BlockingIOError:
                continue
            except OSError:
                # All who could write have closed it.
                break
            if not piece:
                break
            with self.output_lock:
                self._screen.take(decode(piece).replace("\r", ""))
        self._told_all.set()

    def until_ready(self):
        """Waits for the prompt; a shell that shows none is of no use."""
        if not self._wait_for_prompt(READY_SECONDS):
            self.kill()
            raise RuntimeError("the shell shows no prompt")

    def shows_prompt(self):
        return self.read_screen().rstrip().endswith(CMD_OUTPUT_PS1_END.rstrip())

    def expect(self, command):
        with self.output_lock:
            self._screen.expect(command)

    def read_screen(self):
        if self._told_all.is_set():
            code = self.process.wait()
            raise ShellEnded(code if code >= 0 else 128 - code, self._last_output())
        return super().read_screen()

    def _last_output(self):
        with self.output_lock:
            text = "".join(self.output_buffer)
        _, _, after = text.rpartition(CMD_OUTPUT_PS1_END)
        # The first line of it is the command.
        return after.lstrip("\n")

    def clear_screen(self):
        """Forgets what was before the last prompt. OpenHands' own asks for one more when there is none."""
        with self.output_lock:
            _, begin, last = "".join(self.output_buffer).rpartition(CMD_OUTPUT_PS1_BEGIN)
            self.output_buffer.clear()
            if begin and CMD_OUTPUT_PS1_END in last:
                self.output_buffer.append(begin + last)

    def interrupt(self):
        self.kill()
        return True

    def kill(self):
        """Ends the shell and all of its group."""
        if self.process is not None and self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)

    def close(self):
        if self._closed:
            return
        self._closed = True
        self.kill()
        if self.process is not None:
            self.process.wait()
            self._told_all.wait(READY_SECONDS)
        if self._pty_master_fd is not None:
            os.close(self._pty_master_fd)
            self._pty_master_fd = None


def take_terminal():
    """The terminal is the new session's own, so that keys such as C-c are signals."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
