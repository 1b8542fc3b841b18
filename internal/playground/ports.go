package playground

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"strings"
)

const (
	loopback = "127.0.0.1"

	// lowestPort and firstEphemeralPort are the range for drawing ports if the kernel does not
	// report the start of its ephemeral ports.
	lowestPort         = 10000
	firstEphemeralPort = 32768

	// portDraws is the maximum number of ports to try.
	portDraws = 200
)

// freePort returns a TCP port on 127.0.0.1 that is free at the moment. Another process may take the
// port before the caller's child does, so the caller must be able to try again.
//
// The port is below the kernel's range of ephemeral ports. Otherwise, a client that dials a
// component while it is down could get the component's port as its own. The client would then
// connect to itself, and the component could not start again.
func freePort() (int, error) {
	ephemeral := firstEphemeralPort
	if raw, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range"); err == nil {
		ephemeral = parseEphemeralStart(string(raw), firstEphemeralPort)
	}
	return drawPort(lowestPort, ephemeral, rand.IntN, portIsFree)
}

// drawPort draws random ports from low to high-1 until it finds a free one.
func drawPort(low, high int, intN func(int) int, free func(port int) bool) (int, error) {
	if high <= low {
		return 0, fmt.Errorf("find a free port: the range %d to %d is empty", low, high)
	}
	for range portDraws {
		port := low + intN(high-low)
		if free(port) {
			return port, nil
		}
	}
	return 0, errors.New("find a free port on " + loopback + ": all ports that were tried are taken")
}

func portIsFree(port int) bool {
	listener, err := net.Listen("tcp", net.JoinHostPort(loopback, strconv.Itoa(port))) //nolint:noctx // binding a loopback port does not block
	if err != nil {
		return false
	}
	return listener.Close() == nil
}

// parseEphemeralStart returns the first of the two numbers in the file ip_local_port_range. It
// returns fallback if the text is invalid or too few ports are below that number.
func parseEphemeralStart(raw string, fallback int) int {
	fields := strings.Fields(raw)
	if len(fields) == 0 {
		return fallback
	}
	start, err := strconv.Atoi(fields[0])
	if err != nil || start < lowestPort+portDraws || start > 65536 {
		return fallback
	}
	return start
}
