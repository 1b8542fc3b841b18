package playground

import "syscall"

// childAttributes puts a child into its own process group. Then Ctrl-C in the terminal reaches only
// the playground, which ends its children in order. The kernel kills the child when the thread that
// started it ends. So the type spawner keeps this thread alive.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
