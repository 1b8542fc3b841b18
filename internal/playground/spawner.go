package playground

import (
	"os/exec"
	"runtime"
)

// spawner starts processes from one operating system thread that lives as long as the spawner. On Linux the
// parent-death signal is sent when the thread that forked ends, not the process; a goroutine's thread may end at any
// time, and would take healthy children with it.
type spawner struct {
	requests chan spawnRequest
	ended    chan struct{}
}

type spawnRequest struct {
	cmd    *exec.Cmd
	result chan<- error
}

// newSpawner starts the spawner's goroutine; close ends it.
func newSpawner() *spawner {
	s := &spawner{requests: make(chan spawnRequest), ended: make(chan struct{})}
	go func() {
		defer close(s.ended)
		// Never unlocked: the thread ends with this goroutine, and so does any child that is left by then.
		runtime.LockOSThread()
		for request := range s.requests {
			request.result <- request.cmd.Start()
		}
	}()
	return s
}

// start is cmd.Start on the spawner's thread. It must not be called once close has been.
func (s *spawner) start(cmd *exec.Cmd) error {
	result := make(chan error, 1)
	s.requests <- spawnRequest{cmd: cmd, result: result}
	return <-result
}

func (s *spawner) close() {
	close(s.requests)
	<-s.ended
}
