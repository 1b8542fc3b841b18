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

	// The range from which ports are drawn when the kernel does not say where its ephemeral ports begin.
	lowestPort         = 10000
	firstEphemeralPort = 32768

	// portDraws bounds the search for a free port.
	portDraws = 200
)

// freePort returns a TCP port on 127.0.0.1 that nothing listened on a moment ago. Another process may take it before
// the caller's child does, so the caller has to be ready to ask again.
//
// Ports come from below the kernel's ephemeral range. From within the range, a client that keeps dialing a component
// that is down would sooner or later be given that very port, connect to itself, and keep the component from
// coming back.
func freePort() (int, error) {
	ephemeral := firstEphemeralPort
	if raw, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range"); err == nil {
		ephemeral = parseEphemeralStart(string(raw), firstEphemeralPort)
	}
	return drawPort(lowestPort, ephemeral, rand.IntN, portIsFree)
}

// drawPort tries random ports in [low, high) until one is free.
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
	return 0, errors.New("find a free port on " + loopback + ": all that were tried are taken")
}

func portIsFree(port int) bool {
	listener, err := net.Listen("tcp", net.JoinHostPort(loopback, strconv.Itoa(port))) //nolint:noctx // binding a loopback port does not block
	if err != nil {
		return false
	}
	return listener.Close() == nil
}

// parseEphemeralStart reads the first of the two numbers of ip_local_port_range. A range that leaves no room below it gives the fallback.
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
