package playground

import "syscall"

// childAttributes puts a child in a process group of its own, so that the terminal's Ctrl-C reaches the playground
// only and the shutdown has an order. The kernel kills the child when the thread that started it ends; see spawner.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
