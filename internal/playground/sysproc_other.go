//go:build !linux

package playground

import "syscall"

// childAttributes puts a child into its own process group. Only Linux has the parent-death signal,
// so on this system children outlive a playground that is killed.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
