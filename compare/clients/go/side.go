// One side of compare/clients.py, in Go: `side millrace|gomemcache ADDRESS PORT`, as side.c.
package main

import (
	"bytes"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/bradfitz/gomemcache/memcache"
	"millrace"
)

const (
	keyCount   = 1000
	valueBytes = 64
)

// client is what both have.
type client interface {
	get(key string) int
	set(key string, value []byte)
}

type ours struct{ *millrace.Client }

func (c ours) get(key string) int {
	item, err := c.Get(key)
	must(err)
	return len(item.Value)
}

func (c ours) set(key string, value []byte) {
	must(c.Set(key, value, 0, millrace.Forever))
}

type theirs struct{ *memcache.Client }

func (c theirs) get(key string) int {
	item, err := c.Get(key)
	must(err)
	return len(item.Value)
}

func (c theirs) set(key string, value []byte) {
	must(c.Set(&memcache.Item{Key: key, Value: value}))
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func open(kind, address, port string) client {
	if kind == "gomemcache" {
		return theirs{memcache.New(address + ":" + port)}
	}
	client, err := millrace.Open(address, nil)
	must(err)
	return ours{client}
}

func main() {
	client := open(os.Args[1], os.Args[2], os.Args[3])
	value, keys := bytes.Repeat([]byte("v"), valueBytes), make([]string, keyCount)
	for i := range keys {
		keys[i] = fmt.Sprint("key-", i)
		client.set(keys[i], value)
	}
	var operation string
	var count int
	for {
		if _, err := fmt.Scan(&operation, &count); err != nil {
			return
		}
		begun := time.Now()
		for i := 0; i < count; i++ {
			key := keys[i%keyCount]
			if operation == "set" {
				client.set(key, value)
			} else if client.get(key) != valueBytes {
				log.Fatal("another value")
			}
		}
		fmt.Println(time.Since(begun).Nanoseconds())
	}
}
