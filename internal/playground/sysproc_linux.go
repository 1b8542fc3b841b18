package playground

import "syscall"

// childAttributes puts a child in its own process group. So the terminal's Ctrl-C reaches only the
// playground, and the shutdown is ordered. The kernel kills the child when the thread that started
// it ends; see spawner.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
