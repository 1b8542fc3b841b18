//go:build !linux

package playground

import "syscall"

// childAttributes puts a child in its own process group. Without Linux's parent-death signal,
// children outlive a playground that is killed.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
