// A gRPC server that gives back what it gets, for any method: grpc-go as its users run it, but for the
// codec, which leaves messages as they are: server [PORT]. Prints its port.
package main

import (
	"fmt"
	"log"
	"net"
	"os"

	"google.golang.org/grpc"
	"google.golang.org/grpc/mem"
)

type raw struct{}

func (raw) Marshal(v any) (mem.BufferSlice, error) { return *v.(*mem.BufferSlice), nil }
func (raw) Unmarshal(data mem.BufferSlice, v any) error {
	data.Ref()
	*v.(*mem.BufferSlice) = data
	return nil
}
func (raw) Name() string { return "raw" }

func echo(_ any, stream grpc.ServerStream) error {
	var message mem.BufferSlice
	if err := stream.RecvMsg(&message); err != nil {
		return err
	}
	return stream.SendMsg(&message)
}

func main() {
	port := "0"
	if len(os.Args) > 1 {
		port = os.Args[1]
	}
	listener, err := net.Listen("tcp", "127.0.0.1:"+port)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(listener.Addr().(*net.TCPAddr).Port)
	server := grpc.NewServer(grpc.ForceServerCodecV2(raw{}), grpc.UnknownServiceHandler(echo))
	log.Fatal(server.Serve(listener))
}
