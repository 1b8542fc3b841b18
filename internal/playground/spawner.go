package playground

import (
	"os/exec"
	"runtime"
)

// spawner starts all child processes from one operating system thread, which lives as long as the
// spawner. Linux sends the parent-death signal when the thread that forked a child ends, even if
// the process continues. The thread of an ordinary goroutine may end at any time, so its children
// would be killed.
type spawner struct {
	requests chan spawnRequest
	ended    chan struct{}
}

type spawnRequest struct {
	cmd    *exec.Cmd
	result chan<- error
}

// newSpawner starts the goroutine of a spawner. The method close ends that goroutine.
func newSpawner() *spawner {
	s := &spawner{requests: make(chan spawnRequest), ended: make(chan struct{})}
	go func() {
		defer close(s.ended)
		// The thread is never unlocked. So it ends with this goroutine, and Linux kills the
		// remaining children.
		runtime.LockOSThread()
		for request := range s.requests {
			request.result <- request.cmd.Start()
		}
	}()
	return s
}

// start calls cmd.Start on the spawner's thread. Do not call it after close.
func (s *spawner) start(cmd *exec.Cmd) error {
	result := make(chan error, 1)
	s.requests <- spawnRequest{cmd: cmd, result: result}
	return <-result
}

func (s *spawner) close() {
	close(s.requests)
	<-s.ended
}
